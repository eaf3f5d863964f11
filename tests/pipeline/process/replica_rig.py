"""Streams, and replicas of a stage that read them: all real but for Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.ports import free_port
from holdfast.pipeline.machine.messages import Message
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Told
from holdfast.pipeline.process.replica import Replica
from holdfast.pipeline.process.source import SourceParty
from holdfast.pipeline.process.tail import open_reader
from holdfast.pipeline.sources import arrow_schema
from holdfast.pipeline.stages.entries import Order
from holdfast.pipeline.topology import Console, Push, Sink, Stage, Stream, Topology, Window
from holdfast.transport.links import Link
from tests.pipeline.process.fake_query import SIZE, STEP, Answer, Engine, right_answers
from tests.pipeline.sources.rig import wait_for


class Rig:
    """Streams -> `sums`, with all that runs of it. A context manager."""

    def __init__(
        self,
        folder: Path,
        *,
        streams: Iterable[str] = ("a",),
        replicas: int = 1,
        timed: bool = True,
        max_delay: str = "5s",
        heartbeat: str = "20ms",
        kept: str | None = None,
        retain: str | None = None,
    ) -> None:
        """`heartbeat`: whoever is not called for four of these excuses all that is late, so let it
        be more than a busy machine takes. `kept`: what the streams keep. `retain`: of the stage."""
        schema = {"at": "timestamp", "value": "bigint"} if timed else {"value": "bigint"}
        window = Window(keys=["value"], size="250ms", slide="50ms", aggregates=["count() AS n"])
        self.topology = Topology(
            name="rig",
            bucket="50ms",
            streams={
                name: Stream(
                    source=Push(schema=schema),
                    address=f"127.0.0.1:{free_port()}",
                    time="at" if timed else None,
                    retain=kept,
                )
                for name in streams
            },
            stages={
                "sums": Stage(
                    inputs=list(streams),
                    replicas=[f"127.0.0.1:{free_port()}" for _ in range(replicas)],
                    max_delay=max_delay,
                    heartbeat=heartbeat,
                    retain=retain,
                    steps=[window],
                )
            },
            sinks={"keeper": Sink(stream="sums", sink=Console())},
            home=folder,
        )
        self.sources: dict[str, SourceParty] = {}
        self.replicas: dict[str, Replica] = {}
        self.engines: dict[str, Engine] = {}
        for name in streams:
            self.open_source(name)

    def open_source(self, name: str) -> None:
        schema = arrow_schema(self.topology.streams[name])
        self.sources[name] = SourceParty(self.topology, name, schema)

    def open(
        self,
        name: str = "sums/1",
        *,
        empty: bool = False,
        routes: dict[str, str] | None = None,
        **engine: Any,
    ) -> Replica:
        """A replica, on its folder as it was or an empty one."""
        if empty:
            shutil.rmtree(self.topology.state_folder / name, ignore_errors=True)
        self.engines[name] = Engine(**engine)
        session: Any = self.engines[name]
        self.replicas[name] = Replica(self.topology, name, session, routes=routes)
        return self.replicas[name]

    def close(self, name: str = "sums/1") -> None:
        self.replicas.pop(name).close()

    def bring(self, first: int, stop: int, *names: str) -> None:
        """Rows with these numbers, a hundred in a second of event time."""
        table = pa.table(
            {
                "at": pa.array([n * STEP for n in range(first, stop)], pa.timestamp("us", "UTC")),
                "value": pa.array(range(first, stop), pa.int64()),
            }
        )
        for name in names or self.sources:
            self.sources[name].take(table)

    def boundary(self, name: str = "sums/1") -> int:
        return int(self.replicas[name].status()["boundary"])

    def journaled(self, order: Order, name: str = "sums/1") -> bool:
        """Whether such an order is the next to be carried out, and waits."""
        engine = self.engines[name]
        assert engine.query is not None
        if engine.newest is None or engine.query.journal.last <= engine.newest:
            return False
        return engine.query.journal.read(engine.newest + 1).order is order

    def hear(
        self, boundary: int, *, position: int = 0, may_skip: bool = False, **routes: str
    ) -> list[Told]:
        """All that a reader is told until the final rows have come so far."""
        heard: list[Told] = []
        with open_reader(
            self.topology,
            "sums",
            me="somebody",
            position=position,
            tentative=True,
            may_skip=may_skip,
            routes=routes,
        ) as reader:
            while not heard or heard[-1].kind is not Kind.INSERT or heard[-1].boundary < boundary:
                told = reader.next(60)
                assert told is not None, f"nothing after {heard[-1:]}"
                heard.append(told)
        return heard

    def final(self, boundary: int, **settings: Any) -> list[Answer]:
        return final_answers(self.hear(boundary, **settings))

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        for party in (*self.replicas.values(), *self.sources.values()):
            party.close()


@contextmanager
def link_of(name: str, replica: Replica, heard: list[Message]) -> Iterator[Link]:
    """Somebody who calls a replica under this name."""
    with Link(
        name,
        replica.name,
        str(replica.address),
        None,
        lambda _, message: heard.append(message),
        heartbeat=0.02,
        silence=1.0,
    ) as link:
        wait_for(lambda: link.is_connected)
        yield link


def answers_in(table: pa.Table | None) -> list[Answer]:
    if table is None:
        return []
    times = table["stime"].cast(pa.int64()).to_pylist()
    rows = zip(times, table["n"].to_pylist(), table["total"].to_pylist(), strict=True)
    return [(stime // SIZE, n, total) for stime, n, total in rows]


def final_answers(heard: Iterable[Told]) -> list[Answer]:
    return [
        answer for told in heard if told.kind is Kind.INSERT for answer in answers_in(told.rows)
    ]


def numbers(stop: int, *, streams: int = 1) -> list[Answer]:
    """What is right after rows up to this number, of which the last bucket is not complete."""
    end = end_of(stop)
    rows = [(n * STEP, n) for n in range(stop) if n * STEP < end for _ in range(streams)]
    return right_answers(rows)


def end_of(stop: int) -> int:
    """Up to where a stream is final that has these rows."""
    return (stop - 1) * STEP // SIZE * SIZE
