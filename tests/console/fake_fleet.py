"""A fleet of parties without Spark: real servers that answer what a test lets them answer, and
streams that tell what it lets them tell."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Self

import pyarrow as pa

from harness.ports import free_port
from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Told
from holdfast.pipeline.topology import (
    Console,
    Push,
    Select,
    Sink,
    Stage,
    Stream,
    Topology,
    Window,
)
from holdfast.transport.server import LogServer

SECOND = 1_000_000
NOW = 1_790_000_000
"""When made-up stories begin, in seconds."""
WINDOW = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
WINDOWS = pa.schema(
    [
        ("stime", pa.timestamp("us", "UTC")),
        ("sensor", pa.string()),
        ("window", WINDOW),
        ("n", pa.int64()),
        ("total", pa.int64()),
    ]
)


def fleet_topology(folder: Path, **settings: Any) -> Topology:
    """readings -> clean (2) -> sums (2) -> archive."""

    def address() -> str:
        return f"127.0.0.1:{free_port()}"

    return Topology(
        name="fleet",
        bucket="1s",
        streams={
            "readings": Stream(
                source=Push(schema={"sensor": "string", "value": "bigint"}), address=address()
            )
        },
        stages={
            "clean": Stage(
                inputs=["readings"],
                replicas=[address(), address()],
                max_delay="5s",
                steps=[Select(["sensor", "value * 2 AS value"])],
            ),
            "sums": Stage(
                inputs=["clean"],
                replicas=[address(), address()],
                max_delay="5s",
                steps=[
                    Window(
                        size="4s",
                        slide="1s",
                        keys=["sensor"],
                        aggregates=["count() AS n", "sum(value) AS total"],
                    )
                ],
            ),
        },
        sinks={"archive": Sink(stream="sums", sink=Console())},
        home=folder,
        **settings,
    )


def status_of(topology: Topology, party: str) -> dict[str, Any]:
    """What a party says that is well."""
    links = {}
    stage = topology.stages.get(party.partition("/")[0])
    if stage is not None:
        links = {
            each: True for stream in stage.inputs for each in topology.publishers(stream)
        } | dict.fromkeys(topology.peers(party), True)
    stream = party.partition("/")[0]
    return {
        "party": party,
        "kind": "source" if stage is None else "replica",
        "ready": True,
        "state": "STABLE",
        "stable_rows": 12_345,
        "boundary": NOW * SECOND,
        "lag_seconds": 1.2,
        "log_bytes": 4_000_000,
        "callers": list(topology.readers(stream)),
        "refused": {},
    } | (
        {}
        if stage is None
        else {
            "tentative_rows": 0,
            "delay_new_seconds": 0.9,
            "buckets_buffered": 1,
            "batch_seconds": 0.41,
            "links": links,
        }
    )


class _Service:
    def __init__(self, fleet: FakeFleet, party: str) -> None:
        self._fleet = fleet
        self._party = party

    def act(self, name: str, body: bytes) -> bytes:
        if name != "status":
            raise InvalidArgumentError(f"action: there is no {name}")
        said = self._fleet.statuses[self._party]
        return said if isinstance(said, bytes) else json.dumps(said).encode()

    def opened(self, party: str, outbox: Any) -> None: ...

    def closed(self, party: str, outbox: Any) -> None: ...

    def streams(self) -> Mapping[str, pa.Schema]:
        return {}


class FakeFleet:
    """All parties of a topology that have an address. A context manager."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.statuses: dict[str, Any] = {}
        self.streams = FakeStreams()
        self._servers: dict[str, LogServer] = {}
        for name, party in topology.parties().items():
            if party.address is not None:
                self.statuses[name] = status_of(topology, name)
                self.start(name)

    def start(self, party: str) -> None:
        address = self.topology.parties()[party].address
        assert address is not None
        self._servers[party] = LogServer(address, None, _Service(self, party))  # type: ignore[arg-type]

    def stop(self, party: str) -> None:
        self._servers.pop(party).close()

    def say(self, party: str, **changes: Any) -> None:
        self.statuses[party] = self.statuses[party] | changes

    def close(self) -> None:
        for server in self._servers.values():
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FakeStreams:
    """Streams of which readers are told what a test lets them."""

    def __init__(self) -> None:
        self.queues: defaultdict[str, list[Queue[Told]]] = defaultdict(list)
        self.found: dict[str, Any] = {}
        """What reading shows of the publishers, if they are compared."""

    def open(self, stream: str) -> FakeReader:
        queue: Queue[Told] = Queue()
        self.queues[stream].append(queue)
        return FakeReader(queue, self)

    def tell(self, stream: str, *told: Told) -> None:
        """To everybody who reads it now."""
        for queue in self.queues[stream]:
            for each in told:
                queue.put(each)


class FakeReader:
    def __init__(self, queue: Queue[Told], streams: FakeStreams | None = None) -> None:
        self._queue = queue
        self._streams = streams
        self.is_closed = False

    @property
    def found(self) -> Mapping[str, Any]:
        return {} if self._streams is None else self._streams.found

    def next(self, timeout: float | None = None) -> Told | None:
        with suppress(Empty):
            return self._queue.get(timeout=min(timeout or 1, 0.05))
        return None

    def close(self) -> None:
        self.is_closed = True


def windows(ends: Iterable[float], sensors: Mapping[str, float], kind: Kind = Kind.INSERT) -> Told:
    """A window of four seconds for each end and sensor; `sensors`: their totals."""
    ends = list(ends)
    rows = [
        {
            "stime": int(end * SECOND) - 1,
            "sensor": sensor,
            "window": {"start": int((end - 4) * SECOND), "end": int(end * SECOND)},
            "n": 4,
            "total": int(total),
        }
        for end in ends
        for sensor, total in sensors.items()
    ]
    return Told(kind, int(max(ends) * SECOND), pa.Table.from_pylist(rows, schema=WINDOWS))


def wait_for_pieces(pieces: Any, number: int, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while pieces.number < number:
        assert time.monotonic() < deadline, f"only {pieces.number} of {number} pieces came"
        time.sleep(0.01)
