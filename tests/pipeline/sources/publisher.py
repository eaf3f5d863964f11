"""Somebody who publishes a stream as the test says, previews and corrections among it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import pyarrow as pa

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.messages import Message, Send
from holdfast.pipeline.machine.source import Source
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.pipeline.process.service import LogTicket, read_log
from holdfast.storage.chunks import Chunk
from holdfast.transport.links import Outbox
from holdfast.transport.server import LogServer

__all__ = ["Publisher", "rows"]

SCHEMA = pa.schema(
    [
        pa.field("stime", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("sensor", pa.string()),
        pa.field("value", pa.float64()),
    ]
)


def rows(stime: int, values: Sequence[float], sensor: str = "a") -> pa.Table:
    return pa.table(
        [
            pa.array([stime] * len(values), pa.int64()).cast(SCHEMA.field("stime").type),
            pa.array([sensor] * len(values)),
            pa.array(values, pa.float64()),
        ],
        schema=SCHEMA,
    )


class Publisher:
    """Serves the stream `readings`. A context manager."""

    def __init__(self, address: str, readers: Sequence[str] = (), *, start: int = 0) -> None:
        self._source = Source("readings", readers, interval=1, start=start)
        self._outboxes: dict[str, Outbox] = {}
        self._lock = Lock()
        self.server = LogServer(address, None, self)

    @property
    def kept_from(self) -> int:
        return self._source.line.dropped_before

    def publish(self, start: int, end: int, values: Sequence[float]) -> None:
        with self._lock:
            self._send(self._source.line.publish(self._segment(start, end, values)))

    def preview(self, start: int, end: int, values: Sequence[float]) -> None:
        with self._lock:
            self._send(self._source.line.preview(self._segment(start, end, values)))

    @staticmethod
    def _segment(start: int, end: int, values: Sequence[float]) -> Segment:
        chunk = Chunk.of(rows(start, values))
        return Segment(start, end, (Row(start, None, chunk),) if values else ())

    def _send(self, sends: Sequence[Send]) -> None:
        for send in sends:
            if send.to in self._outboxes:
                self._outboxes[send.to].send(send.message)

    # What the server calls

    def opened(self, party: str, outbox: Outbox) -> None:
        with self._lock:
            self._outboxes[party] = outbox

    def received(self, party: str, message: Message) -> None:
        with self._lock:
            self._send(self._source.receive(party, message))

    def closed(self, party: str, outbox: Outbox) -> None:
        with self._lock:
            if self._outboxes.get(party) is outbox:
                del self._outboxes[party]
                self._source.line.leave(party)

    def read(self, ticket: bytes) -> pa.RecordBatchReader:
        with self._lock:
            return read_log(self._source.line, LogTicket.read(ticket), SCHEMA)

    def push(self, stream: str, batch: pa.RecordBatch) -> bytes:
        raise InvalidArgumentError("nothing is taken here")

    def act(self, name: str, body: bytes) -> bytes:
        line = self._source.line
        return json.dumps({"boundary": line.end, "start": line.dropped_before}).encode()

    def streams(self) -> Mapping[str, pa.Schema]:
        return {"readings": SCHEMA}

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *_: Any) -> None:
        self.server.close()
