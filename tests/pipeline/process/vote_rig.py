"""A stream, a stage `clean` of several replicas, and `sums` that compares them: all but Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.lies import tell_lies
from harness.ports import free_port
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Told
from holdfast.pipeline.process.replica import Replica
from holdfast.pipeline.process.source import SourceParty
from holdfast.pipeline.process.tail import open_reader
from holdfast.pipeline.sinks import reader_of
from holdfast.pipeline.sources import arrow_schema
from holdfast.pipeline.topology import VOTING, Console, Push, Sink, Stage, Stream, Topology, Window
from tests.pipeline.process.fake_query import STEP, Answer, Engine, right_answers
from tests.pipeline.process.replica_rig import end_of, final_answers
from tests.pipeline.sources.rig import wait_for


class VoteRig:
    """`numbers` -> `clean` -> `sums`, and a sink of `clean` that votes. A context manager."""

    def __init__(
        self,
        folder: Path,
        *,
        policy: str = "vote",
        faults: int = 1,
        replicas: int = 4,
        barrier: str = "20s",
        window: str | None = None,
        **gate: Any,
    ) -> None:
        """`window`: how long one of `clean` is, which has none if not given. `gate`: more settings
        of that of `sums`."""

        def addresses(count: int) -> list[str]:
            return [f"127.0.0.1:{free_port()}" for _ in range(count)]

        voting: dict[str, Any] = {} if policy == "switch" else {"barrier": barrier}
        if policy in VOTING:
            voting["faults"] = faults

        def windows(size: str) -> list[Window]:
            return [Window(keys=["value"], size=size, slide="50ms", aggregates=["count() AS n"])]

        self.topology = Topology(
            name="rig",
            bucket="50ms",
            streams={
                "numbers": Stream(
                    source=Push(schema={"at": "timestamp", "value": "bigint"}),
                    address=addresses(1)[0],
                    time="at",
                )
            },
            stages={
                "clean": Stage(
                    inputs=["numbers"],
                    replicas=addresses(replicas),
                    heartbeat="100ms",
                    steps=[] if window is None else windows(window),
                ),
                "sums": Stage(
                    inputs=["clean"],
                    replicas=addresses(1),
                    policy=policy,
                    heartbeat="100ms",
                    steps=windows("250ms"),
                    **voting,
                    **gate,
                ),
            },
            sinks={"voter": Sink(stream="clean", sink=Console(), policy=policy, **voting)},
            home=folder,
        )
        schema = arrow_schema(self.topology.streams["numbers"])
        self.source = SourceParty(self.topology, "numbers", schema)
        self.replicas: dict[str, Replica] = {}
        self.names = self.topology.publishers("clean")

    def open(self, *names: str, lie: str | None = None, **engine: Any) -> None:
        for name in names:
            session: Any = Engine(**engine)
            self.replicas[name] = Replica(self.topology, name, session)
            if lie is not None:
                tell_lies(self.replicas[name]._workplace.neighbours, lie)

    def open_all(self, liars: tuple[str, ...] = (), lie: str = "wrong-value") -> None:
        self.open(*(name for name in self.names if name not in liars))
        self.open(*liars, lie=lie)
        self.open("sums/1")

    def close(self, name: str) -> None:
        self.replicas.pop(name).close()

    def bring(self, first: int, stop: int, *, since: int = 0) -> None:
        """Numbers, a hundred in a second of event time from `since` on."""
        times = [since + n * STEP for n in range(first, stop)]
        table = pa.table(
            {
                "at": pa.array(times, pa.timestamp("us", "UTC")),
                "value": pa.array(range(first, stop), pa.int64()),
            }
        )
        self.source.take(table)

    def bring_through(self, first: int, stop: int) -> None:
        """The same, and wait until `sums` has published what comes of them."""
        self.bring(first, stop)
        wait_for(lambda: self.found["boundary"] >= end_of(stop))

    @property
    def found(self) -> dict[str, Any]:
        """What `sums` says of itself."""
        return self.replicas["sums/1"].status()

    def hear(self, boundary: int) -> list[Told]:
        """All that a reader of `sums` is told until the final rows have come so far."""
        with open_reader(
            self.topology, "sums", me="somebody", position=0, tentative=False
        ) as reader:
            return hear(reader, boundary)

    def hear_as_sink(self, boundary: int, quarantined: list[str]) -> list[int]:
        """The values that a sink of `clean` gets; waits until it has found out who lies."""
        with reader_of(self.topology, "voter", 0, False) as reader:
            heard = hear(reader, boundary)
            values = [
                value
                for told in heard
                if told.rows is not None
                for value in told.rows["value"].to_pylist()
            ]
            wait_for(lambda: reader.found["quarantined"] == quarantined)
            return values

    def answers(self, stop: int) -> list[Answer]:
        return final_answers(self.hear(end_of(stop)))

    def __enter__(self) -> VoteRig:
        return self

    def __exit__(self, *_: object) -> None:
        for party in (*self.replicas.values(), self.source):
            party.close()


def hear(reader: Any, boundary: int) -> list[Told]:
    heard: list[Told] = []
    while not heard or heard[-1].kind is not Kind.INSERT or heard[-1].boundary < boundary:
        told = reader.next(60)
        assert told is not None, f"nothing after {heard[-1:]}"
        heard.append(told)
    return heard


def cleaned(stop: int) -> list[int]:
    """What `clean` makes of numbers up to this one, of which the last bucket is not complete."""
    return [n for n in range(stop) if n * STEP < end_of(stop) and n % 3 != 0]


def right(stop: int) -> list[Answer]:
    return right_answers([(n * STEP, n) for n in cleaned(stop)])
