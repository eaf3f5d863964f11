"""Replicas that share the work of a stage: all real but for Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.ports import free_port
from harness.waiting import wait_for
from holdfast.errors import WireError
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.replica import Replica
from holdfast.pipeline.process.service import LogTicket
from holdfast.pipeline.process.shared_replica import SharingReplica
from holdfast.pipeline.process.source import SourceParty
from holdfast.pipeline.process.tail import newest_boundary, open_reader, read_stream
from holdfast.pipeline.sources import arrow_schema
from holdfast.pipeline.topology import Console, Push, Sink, Stage, Stream, Topology, Where, Window
from holdfast.transport.client import fetch
from tests.pipeline.process.fake_query import STEP, Answer, Engine, right_answers
from tests.pipeline.process.replica_rig import answers_in, end_of

pytestmark = pytest.mark.usefixtures("no_spark")


class SharedRig:
    """`a` -> `clean`, shared -> `sums` and a sink. A context manager."""

    def __init__(
        self, folder: Path, replicas: int = 3, *, chain: bool = False, **stage: Any
    ) -> None:
        """`chain`: with another such stage, of two, between `clean` and `sums`."""
        window = Window(keys=["value"], size="250ms", slide="50ms", aggregates=["count() AS n"])
        source = Push(schema={"at": "timestamp", "value": "bigint"})
        again = Stage(
            inputs=["clean"],
            replicas=[_address(), _address()],
            policy="share",
            heartbeat="20ms",
        )
        self.topology = Topology(
            name="rig",
            bucket="50ms",
            streams={"a": Stream(source=source, address=_address(), time="at")},
            stages={
                "clean": Stage(
                    inputs=["a"],
                    replicas=[_address() for _ in range(replicas)],
                    policy="share",
                    heartbeat="20ms",
                    steps=[Where("value >= 0")],
                    **stage,
                ),
                **({"again": again} if chain else {}),
                "sums": Stage(
                    inputs=["again" if chain else "clean"],
                    replicas=[_address()],
                    heartbeat="20ms",
                    policy="order",
                    steps=[window],
                ),
            },
            sinks={"keeper": Sink(stream="clean", sink=Console())},
            home=folder,
        )
        self.source = SourceParty(self.topology, "a", arrow_schema(self.topology.streams["a"]))
        self.engines: dict[str, Engine] = {}
        self.parties: dict[str, SharingReplica | Replica] = {}
        self.brought = 0

    def open(self, *names: str, **engine: Any) -> None:
        for name in names:
            kind = Replica if name.startswith("sums") else SharingReplica
            session: Any = Engine(**engine)
            self.engines[name] = session
            self.parties[name] = kind(self.topology, name, session)

    def close(self, name: str) -> None:
        self.parties.pop(name).close()

    def bring(self, rows: int) -> None:
        first, self.brought = self.brought, self.brought + rows
        table = {
            "at": pa.array(
                [n * STEP for n in range(first, self.brought)], pa.timestamp("us", "UTC")
            ),
            "value": pa.array(range(first, self.brought), pa.int64()),
        }
        self.source.take(pa.table(table))

    def seats(self) -> dict[str, list[str]]:
        return {
            name: sorted(party.status()["seats"])
            for name, party in self.parties.items()
            if name.startswith("clean")
        }

    def wait_for_seats(self, **seats: str) -> None:
        """By the number of each replica, the numbers of its seats."""
        wanted = {
            f"clean/{name[1:]}": [f"clean@{seat}" for seat in some] for name, some in seats.items()
        }
        wait_for(f"{wanted}", lambda: self.seats() == wanted, 20, 0.02)

    def answers(self) -> list[Answer]:
        """What `sums` makes of it."""
        end = end_of(self.brought)
        found: list[Answer] = []
        with open_reader(
            self.topology, "sums", me="somebody", position=0, tentative=True
        ) as reader:
            boundary = 0
            while boundary < end:
                told = reader.next(30)
                assert told is not None
                assert told.kind is Kind.INSERT
                boundary = told.boundary
                found += answers_in(told.rows)
        return found

    def worked(self, name: str) -> int:
        return self.parties[name].counts.stable

    def __enter__(self) -> SharedRig:
        return self

    def __exit__(self, *_: object) -> None:
        for party in (*self.parties.values(), self.source):
            party.close()


def _address() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SharedRig]:
    with SharedRig(tmp_path) as made:
        yield made


ALL = ("clean/1", "clean/2", "clean/3")


def cleaned(stop: int) -> list[int]:
    """What is right after so many rows, of which the last bucket is not complete."""
    return [n for n in range(stop) if n * STEP < end_of(stop) and n % 3 != 0]


def summed(stop: int) -> list[Answer]:
    return right_answers((n * STEP, n) for n in cleaned(stop))


def values(rig: SharedRig, *, me: str = "keeper", acknowledges: bool = True) -> list[int]:
    end = end_of(rig.brought)
    found: list[int] = []
    with open_reader(
        rig.topology, "clean", me=me, position=0, tentative=False, acknowledges=acknowledges
    ) as reader:
        boundary = 0
        while boundary < end:
            told = reader.next(30)
            assert told is not None
            boundary = told.boundary
            found += [] if told.rows is None else told.rows["value"].to_pylist()
            reader.acknowledge(boundary)
    return found


def test_each_works_on_its_part_and_readers_see_one_stream(rig: SharedRig) -> None:
    rig.open(*ALL, "sums/1")
    rig.wait_for_seats(_1="1", _2="2", _3="3")
    rig.bring(601)
    assert rig.answers() == summed(601)
    assert values(rig) == cleaned(601)
    assert sum(map(rig.worked, ALL)) == len(cleaned(601)), "nothing is done twice"
    assert min(map(rig.worked, ALL)) >= 100


def test_one_that_ends_is_taken_over_from_and_comes_back(rig: SharedRig) -> None:
    rig.open(*ALL, "sums/1")
    rig.wait_for_seats(_1="1", _2="2", _3="3")
    rig.bring(300)
    # It has work in hand that nobody will see.
    engine = rig.engines["clean/2"]
    engine.delivers = False
    rig.bring(300)
    rig.close("clean/2")
    rig.wait_for_seats(_1="1", _3="23")
    rig.bring(300)
    assert rig.answers() == summed(900)
    rig.open("clean/2")
    rig.wait_for_seats(_1="1", _2="2", _3="3")
    rig.bring(301)
    assert rig.answers() == summed(1201)
    assert rig.worked("clean/2") >= 50, "it works again"


def test_what_only_the_dead_one_had_is_done_again(rig: SharedRig) -> None:
    """It had published all of it, and no reader was there to see."""
    rig.open(*ALL)
    rig.wait_for_seats(_1="1", _2="2", _3="3")
    rig.bring(601)
    wait_for("all to be done", lambda: sum(map(rig.worked, ALL)) == len(cleaned(601)), 20, 0.02)
    rig.close("clean/1")
    rig.open("sums/1")
    assert rig.answers() == summed(601)
    assert values(rig) == cleaned(601)


def test_what_is_shared_may_be_shared_again(tmp_path: Path) -> None:
    with SharedRig(tmp_path, replicas=2, chain=True) as rig:
        rig.open("clean/1", "clean/2", "again/1", "again/2", "sums/1")
        rig.wait_for_seats(_1="1", _2="2")
        rig.bring(300)
        rig.close("again/1")
        rig.bring(301)
        assert rig.answers() == summed(601)
        assert values(rig) == cleaned(601)


def test_a_reader_is_told_where_the_parts_lie(rig: SharedRig) -> None:
    rig.open(*ALL)
    rig.wait_for_seats(_1="1", _2="2", _3="3")
    rig.bring(201)
    end = end_of(201)
    wait_for("all to be done", lambda: newest_boundary(rig.topology, "clean") == end, 20, 0.02)
    address = rig.topology.parties()["clean/2"].address
    assert address is not None
    for other in ("clean", "clean@1"):
        with pytest.raises(WireError, match=f"has no {other} to read"):
            fetch(address, None, LogTicket(other, 0, end).write())


def test_shared_work_cannot_be_compared(rig: SharedRig) -> None:
    with pytest.raises(ValueError, match="share their work; leave it out"):
        read_stream(rig.topology, "clean", policy="vote")


def test_at_most_once_the_stream_goes_on(tmp_path: Path) -> None:
    with SharedRig(tmp_path, replicas=2, guarantee="at-most-once") as rig:
        rig.open("clean/1", "clean/2", "sums/1")
        rig.wait_for_seats(_1="1", _2="2")
        rig.bring(300)
        rig.close("clean/1")
        rig.wait_for_seats(_2="12")
        rig.bring(301)
        found = values(rig)
        assert found == sorted(set(found))
        assert found[-1] == cleaned(601)[-1]
