"""A service that writes down what it is told, and things to wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.messages import Message
from holdfast.transport.links import Outbox
from tests.transport.samples import readings

DEADLINE = 60.0
SOON = 15.0
"""What a busy machine may make of "at once"; gRPC by itself waits for up to two minutes."""


def wait_for(condition: Callable[[], object], seconds: float = DEADLINE) -> float:
    """Until it holds; answers how long that took."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > seconds:
            raise AssertionError(f"waited {seconds:g} seconds in vain")
        time.sleep(0.005)
    return time.monotonic() - begin


class Recorder:
    """Answers nothing by itself; `say` sends to everybody who has a link."""

    def __init__(self) -> None:
        self.outboxes: dict[str, Outbox] = {}
        self.told: list[tuple[str, Message]] = []
        self.pushed: list[pa.RecordBatch] = []
        self.ends = 0
        self.busy = threading.Event()
        self.busy.set()

    def opened(self, party: str, outbox: Outbox) -> None:
        self.outboxes[party] = outbox

    def received(self, party: str, message: Message) -> None:
        self.busy.wait(DEADLINE)
        self.told.append((party, message))

    def closed(self, party: str, outbox: Outbox) -> None:
        self.ends += 1
        if self.outboxes.get(party) is outbox:
            del self.outboxes[party]

    def say(self, message: Message) -> None:
        for outbox in list(self.outboxes.values()):
            outbox.send(message)

    def read(self, ticket: bytes) -> pa.Table | pa.RecordBatchReader:
        match ticket.split(b" "):
            case [b"rows", count] if count.isdigit():
                return readings(min(int(count), 10**6))
            case [b"stream"]:
                table = readings(10)
                return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
            case [b"breaks"]:
                return pa.RecordBatchReader.from_batches(readings(1).schema, _breaking())
            case [b"fails"]:
                raise KeyError("a secret")
        raise InvalidArgumentError("ticket: this is none; ask for a new one")

    def push(self, stream: str, batch: pa.RecordBatch) -> bytes:
        if stream != "readings":
            raise InvalidArgumentError(f"stream: {stream!r} takes no rows; push to 'readings'")
        self.pushed.append(batch)
        return str(batch.num_rows).encode()

    def act(self, name: str, body: bytes) -> bytes:
        if name == "echo":
            return body
        if name == "fail":
            raise ZeroDivisionError("a secret")
        raise InvalidArgumentError("action: there is only 'echo'")

    def streams(self) -> Mapping[str, pa.Schema]:
        return {"readings": readings(0).schema}


def _breaking() -> Iterator[pa.RecordBatch]:
    yield from readings(1).to_batches()
    raise RuntimeError("a secret")


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if "holdfast" in t.name]


@contextmanager
def no_threads_left() -> Iterator[None]:
    before = threads()
    yield
    assert threads() == before
