"""A replica between real sources, links and readers; a thread with plain Arrow is its Spark.

What it does for the stage: of even values, how many there were in the last five buckets and what
they sum up to. So there is a state, which converges, and the right answer is a few lines of Python.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from holdfast.errors import StoreUnavailableError
from holdfast.parties import replica as replica_module
from holdfast.parties.disk_log import DiskLog
from holdfast.parties.reader import Told
from holdfast.parties.replica import Replica
from holdfast.parties.source import SourceParty
from holdfast.parties.tickets import LogTicket
from holdfast.protocol import node as node_module
from holdfast.protocol.messages import Message, StateReply, StateRequest
from holdfast.sources import arrow_schema
from holdfast.spark.stages.entries import Entry, Order
from holdfast.spark.stages.gate_source import journal_ticket
from holdfast.spark.stages.journal import Journal
from holdfast.spark.stages.query import Result
from holdfast.tail.reading import open_reader
from holdfast.topology import Console, Push, Sink, Stage, Stream, Topology, Window
from holdfast.tuples import Kind
from holdfast.wire import Chunk, Link, LogClient, RefusedError
from holdfast.wire.proxy import Proxy
from tests.sources.rig import free_port, wait_for
from tests.wire.parties import no_threads_left
from tests.wire.samples import draw_message, mutate

SIZE = 50_000
"""Of a bucket."""
BUCKETS = 5
"""In a window."""
STEP = 10_000
"""Between two rows."""
PUBLISHED = StructType(
    [
        StructField("stime", TimestampType(), nullable=False),
        StructField("n", LongType()),
        StructField("total", LongType()),
    ]
)
SCHEMA = to_arrow_schema(PUBLISHED, timezone="UTC")
Answer = tuple[int, int, int]
"""Bucket, count and sum."""


# The stage


def roll(state: dict[int, list[int]], bucket: int, values: Iterable[int]) -> Answer | None:
    """Put a bucket into the state; what the window that ends with it says."""
    even = [value for value in values if value % 2 == 0]
    for old in [each for each in state if each <= bucket - BUCKETS]:
        del state[old]
    if not even:
        return None
    state[bucket] = [len(even), sum(even)]
    return bucket, *(sum(each[at] for each in state.values()) for at in (0, 1))


def right_answers(rows: Iterable[tuple[int, int]]) -> list[Answer]:
    """What comes of rows, given by their time and value."""
    buckets: dict[int, list[int]] = {}
    for stime, value in rows:
        buckets.setdefault(stime // SIZE, []).append(value)
    state: dict[int, list[int]] = {}
    answers = (roll(state, bucket, buckets[bucket]) for bucket in sorted(buckets))
    return [answer for answer in answers if answer is not None]


@dataclass
class Engine:
    """What a test wants of the query; it is handed over in the place of a Spark session."""

    works: int | None = None
    """So many pieces of work are still done; None: all."""
    held: Order | None = None
    """Such an order, and all that follows, is not carried out."""
    delivers: bool = True
    commits: bool = True
    """Whether what was delivered is done for good; else it comes again after a restart."""
    twice: bool = False
    done: list[Order] = field(default_factory=list)
    newest: int | None = None
    """The last entry that was done, once it is known."""
    query: FakeQuery | None = None


class FakeQuery:
    """Carries out the entries of a real journal, in order, in a thread."""

    def __init__(
        self,
        engine: Engine,
        compiled: Any,
        folder: Path,
        *,
        deliver: Callable[[Result], None],
        **_: Any,
    ) -> None:
        self.journal = Journal(folder / "journal")
        self.failure: str | None = None
        self.progress = {"durationMs": {"triggerExecution": 250}}
        self._engine = engine
        self._checkpoint = folder / "checkpoint.json"
        self._deliver = deliver
        self._ending = Event()
        engine.query = self
        self._thread = Thread(target=self._run, name="holdfast fake query", daemon=True)
        self._thread.start()

    def submit(self, entry: Entry) -> int:
        return self.journal.append(entry).number

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        base: dict[int, list[int]] = {}
        fork: dict[int, list[int]] | None = None
        done = 0
        if self._checkpoint.exists():
            done, base, fork = _read_states(self._checkpoint.read_text())
        self._engine.newest = done
        try:
            while not self._ending.wait(0.002):
                for entry in list(self.journal.since(done)):
                    while not self._may(entry.order):
                        if self._ending.wait(0.002):
                            return
                    result, base, fork = _carry_out(entry, base, fork)
                    while not self._engine.delivers:
                        if self._ending.wait(0.002):
                            return
                    for _ in range(1 + self._engine.twice):
                        self._deliver(result)
                    done = entry.number
                    self._engine.done.append(entry.order)
                    self._engine.newest = done
                    if self._engine.commits:
                        self._commit(done, base, fork)
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    def _may(self, order: Order) -> bool:
        engine = self._engine
        if order is engine.held:
            return False
        if order is not Order.WORK or engine.works is None:
            return True
        if engine.works == 0:
            return False
        engine.works -= 1
        return True

    def _commit(self, *states: Any) -> None:
        unfinished = self._checkpoint.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(states))
        unfinished.rename(self._checkpoint)
        self.journal.drop_to(states[0])


def _read_states(text: str) -> tuple[int, dict[int, list[int]], dict[int, list[int]] | None]:
    done, base, fork = json.loads(text)
    return done, _numbered(base), None if fork is None else _numbered(fork)


def _numbered(state: dict[str, list[int]]) -> dict[int, list[int]]:
    return {int(bucket): sums for bucket, sums in state.items()}


def _carry_out(
    entry: Entry, base: dict[int, list[int]], fork: dict[int, list[int]] | None
) -> tuple[Result, dict[int, list[int]], dict[int, list[int]] | None]:
    chunks: tuple[tuple[int, Chunk], ...] = ()
    copy = b""
    match entry.order:
        case Order.WORK:
            state = fork if entry.tentative else base
            assert state is not None, "there is no fork"
            chunks = tuple(_work(entry, state))
        case Order.FORK:
            fork = {bucket: list(sums) for bucket, sums in base.items()}
        case Order.DROP:
            fork = None
        case Order.RESTART:
            base = {}
        case Order.INSTALL:
            base = _numbered(json.loads(entry.state))
        case Order.COPY:
            copy = json.dumps(base).encode()
    return Result(entry.number, entry.order, chunks, copy), base, fork


def _work(entry: Entry, state: dict[int, list[int]]) -> Iterator[tuple[int, Chunk]]:
    buckets: dict[int, list[int]] = {}
    for piece in entry.pieces:
        buckets.setdefault(piece.bucket, []).extend(piece.chunk.table()["value"].to_pylist())
    for bucket in sorted(buckets):
        answer = roll(state, bucket, buckets[bucket])
        if answer is not None:
            times = pa.array([bucket * SIZE], pa.int64()).cast(SCHEMA.field("stime").type)
            yield bucket, Chunk.of(pa.table([times, [answer[1]], [answer[2]]], schema=SCHEMA))


# The topology


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
        kept: str | None = None,
        retain: str | None = None,
    ) -> None:
        """`kept`: what the streams keep. `retain`: of the stage."""
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
                    heartbeat="20ms",
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
                told = reader.next(20)
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


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Replicas that begin together do not ask each other for long.
    monkeypatch.setattr(node_module, "ROUNDS", 1)
    monkeypatch.setattr(replica_module, "StageQuery", FakeQuery)
    monkeypatch.setattr(
        replica_module, "compile_stage", lambda *_: SimpleNamespace(published=PUBLISHED)
    )
    with no_threads_left():
        yield


# Rows


def test_rows_come_out_right(tmp_path: Path) -> None:
    with Rig(tmp_path, streams=("a", "b")) as rig:
        replica = rig.open()
        for first in range(0, 1000, 100):
            rig.bring(first, first + 100)
        assert rig.final(end_of(1000)) == numbers(1000, streams=2)
        status = replica.status()
        assert status["stable_rows"] == len(numbers(1000))
        assert (status["state"], status["ready"], status["batch_seconds"]) == ("STABLE", True, 0.25)
        assert status["links"] == {"a": True, "b": True}
        assert replica.failure is None


def test_what_the_query_delivers_twice_is_published_once(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.open(twice=True)
        for first in range(0, 500, 50):
            rig.bring(first, first + 50)
        assert rig.final(end_of(500)) == numbers(500)
        assert rig.replicas["sums/1"].status()["stable_rows"] == len(numbers(500))


def test_results_that_come_late_come_in_order(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.open(delivers=False)
        for first in range(0, 500, 50):
            rig.bring(first, first + 50)
        rig.engines["sums/1"].delivers = True
        assert rig.final(end_of(500)) == numbers(500)


def test_two_replicas_publish_the_same(tmp_path: Path) -> None:
    with Rig(tmp_path, streams=("a", "b"), replicas=2) as rig:
        # Both begin without anything: they converge, for nobody has a state to give.
        for name in ("sums/1", "sums/2"):
            rig.open(name)
        for first in range(0, 1000, 40):
            rig.bring(first, first + 40)
        end = end_of(1000)
        wait_for(lambda: all(rig.boundary(name) >= end for name in rig.replicas))
        digests = {}
        for name, replica in rig.replicas.items():
            start = max(replica.status()["start"], 0)
            with LogClient(replica.address) as client:
                table = client.fetch(LogTicket("sums", start, end).write())
            assert answers_in(table) == [
                answer for answer in numbers(1000, streams=2) if answer[0] * SIZE >= start
            ]
            [line] = replica._node.lines.values()
            digests[name] = {
                (segment.start, row.value.digest)
                for segment in line.segments.since(0)
                for row in segment.rows
            }
        assert digests["sums/1"] & digests["sums/2"]
        later = max(min(each)[0] for each in digests.values())
        first, second = ({each for each in found if each[0] >= later} for found in digests.values())
        assert first == second


# Restarts


def test_a_replica_goes_on_from_its_folder(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        for life in range(4):
            rig.open()
            rig.bring(life * 100, life * 100 + 100)
            wait_for(lambda life=life: rig.boundary() >= end_of(life * 100 + 100))
            assert rig.final(end_of(life * 100 + 100)) == numbers(life * 100 + 100)
            rig.close()


@pytest.mark.parametrize("engine", [{"works": 0}, {"delivers": False}, {"commits": False}])
def test_what_was_journaled_and_not_done_is_done_after_a_restart(
    tmp_path: Path, engine: dict[str, Any]
) -> None:
    """Not begun, not delivered, or delivered and not taken for done."""
    with Rig(tmp_path) as rig:
        rig.open()
        rig.bring(0, 100)
        wait_for(lambda: rig.boundary() >= end_of(100))
        rig.close()
        rig.open(**({} if "delivers" in engine else engine))
        wait_for(rig.replicas["sums/1"].ready.is_set)
        for name, value in engine.items():
            setattr(rig.engines["sums/1"], name, value)
        rig.bring(100, 200)
        if "commits" in engine:
            wait_for(lambda: rig.boundary() >= end_of(200))
        else:
            wait_for(lambda: rig.journaled(Order.WORK))
        rig.close()
        rig.open()
        rig.bring(200, 300)
        assert rig.final(end_of(300)) == numbers(300)
        assert rig.replicas["sums/1"].failure is None


def test_rows_are_published_once_over_many_restarts(tmp_path: Path) -> None:
    chance = random.Random(6)
    done = 0
    with Rig(tmp_path, streams=("a", "b")) as rig:
        for _ in range(12):
            rig.open(
                twice=chance.random() < 0.3,
                commits=chance.random() < 0.7,
                works=chance.choice([None, None, 0, 1, 2]),
            )
            for _ in range(chance.randrange(1, 4)):
                rig.bring(done, done + 30)
                done += 30
            if chance.random() < 0.7:
                wait_for(lambda: rig.journaled(Order.WORK) or rig.boundary())
            rig.close()
        rig.open()
        assert rig.final(end_of(done)) == numbers(done, streams=2)


def test_a_reader_stays_while_a_replica_is_started_again(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.open()
        rig.bring(0, 100)
        with open_reader(rig.topology, "sums", me="keeper", position=0, tentative=False) as reader:
            heard: list[Told] = []

            def hear(boundary: int) -> None:
                while not heard or heard[-1].boundary < boundary:
                    told = reader.next(20)
                    assert told is not None
                    heard.append(told)

            hear(end_of(100))
            rig.close()
            rig.bring(100, 200)
            rig.open()
            hear(end_of(200))
        assert final_answers(heard) == numbers(200)


# A peer


@pytest.mark.parametrize("commits", [True, False])
def test_who_has_lost_its_folder_gets_its_state_from_its_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    with Rig(tmp_path, replicas=2) as rig:
        for name in ("sums/1", "sums/2"):
            rig.open(name)
        rig.bring(0, 300)
        wait_for(lambda: all(rig.boundary(name) >= end_of(300) for name in rig.replicas))
        rig.close("sums/2")
        monkeypatch.setattr(node_module, "ROUNDS", 100)
        rig.open("sums/2", empty=True, commits=commits)
        wait_for(lambda: Order.INSTALL in rig.engines["sums/2"].done)
        assert Order.COPY in rig.engines["sums/1"].done
        rig.bring(300, 400)
        wait_for(lambda: rig.boundary("sums/2") >= end_of(400))
        # It alone, with what it took over, also after a restart.
        rig.close("sums/1")
        start = int(rig.replicas["sums/2"].status()["start"])
        expected = [each for each in numbers(400) if each[0] * SIZE >= start]
        assert len(expected) > 60
        assert rig.final(end_of(400), position=start) == expected
        rig.close("sums/2")
        rig.open("sums/2")
        rig.bring(400, 500)
        expected = [each for each in numbers(500) if each[0] * SIZE >= start]
        assert rig.final(end_of(500), position=start) == expected


@pytest.mark.parametrize("records", [0, 1, 5])
def test_who_is_killed_while_it_takes_over_a_state_takes_it_over_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    with Rig(tmp_path, replicas=2) as rig:
        for name in ("sums/1", "sums/2"):
            rig.open(name)
        rig.bring(0, 300)
        wait_for(lambda: all(rig.boundary(name) >= end_of(300) for name in rig.replicas))
        rig.close("sums/2")
        monkeypatch.setattr(node_module, "ROUNDS", 100)
        append, left = DiskLog.append, [records]

        def fail(log: DiskLog, *given: Any) -> Any:
            if log.folder.parent.name == "2":
                left[0] -= 1
                if left[0] < 0:
                    raise StoreUnavailableError("the process was killed here")
            return append(log, *given)

        monkeypatch.setattr(DiskLog, "append", fail)
        replica = rig.open("sums/2", empty=True)
        wait_for(lambda: replica.failure)
        assert "killed here" in str(replica.failure)
        monkeypatch.setattr(DiskLog, "append", append)
        rig.close("sums/2")
        rig.open("sums/2")
        wait_for(lambda: rig.boundary("sums/2") >= end_of(300))
        rig.bring(300, 400)
        wait_for(lambda: rig.boundary("sums/2") >= end_of(400))
        rig.close("sums/1")
        start = int(rig.replicas["sums/2"].status()["start"])
        assert rig.final(end_of(400), position=start) == [
            each for each in numbers(400) if each[0] * SIZE >= start
        ]


# Failures


class Feeder:
    """Brings a row to each source every few milliseconds, while it runs."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._ending = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self.number = 0

    def _run(self) -> None:
        while not self._ending.wait(0.005):
            for source in self._rig.sources.values():
                source.take(pa.table({"value": pa.array([self.number], pa.int64())}))
            self.number += 1

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()


def logged(rig: Rig, boundary: int) -> list[tuple[int, int]]:
    """All that the sources have published before a boundary."""
    rows: list[tuple[int, int]] = []
    for name, source in rig.sources.items():
        with LogClient(source.address) as client:
            table = client.fetch(LogTicket(name, 0, boundary).write())
        times = table["stime"].cast(pa.int64()).to_pylist()
        rows += zip(times, table["value"].to_pylist(), strict=True)
    return rows


def apply(heard: Iterable[Told]) -> list[Answer]:
    """What stands after all that was told, tentative or not."""
    stands: list[Answer] = []
    for told in heard:
        if told.kind is Kind.UNDO:
            stands = [each for each in stands if each[0] * SIZE < told.boundary]
        else:
            stands += answers_in(told.rows)
    return stands


def test_a_source_that_is_cut_off_makes_previews_and_later_corrections(tmp_path: Path) -> None:
    with Rig(tmp_path, streams=("a", "b"), timed=False, max_delay="300ms") as rig:
        address = rig.sources["b"].address
        with Proxy((address.host, address.port)) as proxy, Feeder(rig):
            rig.open(routes={"b": f"127.0.0.1:{proxy.port}"})
            replica = rig.replicas["sums/1"]
            with open_reader(
                rig.topology, "sums", me="keeper", position=0, tentative=True
            ) as reader:
                heard: list[Told] = []

                def hear_until(kind: Kind, rows: int = 0) -> None:
                    while True:
                        told = reader.next(20)
                        assert told is not None
                        heard.append(told)
                        if told.kind is kind and len(answers_in(told.rows)) >= rows:
                            return

                for _ in range(3):
                    hear_until(Kind.INSERT, 1)
                assert not any(told.kind is Kind.TENTATIVE for told in heard)
                proxy.cut()
                for _ in range(5):
                    hear_until(Kind.TENTATIVE, 1)
                assert replica.status()["state"] == "UP_FAILURE"
                assert replica.status()["tentative_rows"] > 0
                stood = max(t.boundary for t in heard if t.kind is Kind.INSERT)
                proxy.heal()
                hear_until(Kind.REC_DONE)
                hear_until(Kind.INSERT, 1)
            undone = [told.boundary for told in heard if told.kind is Kind.UNDO]
            assert undone
            assert min(undone) >= stood
            end = max(told.boundary for told in heard if told.kind is Kind.INSERT)
            expected = right_answers(logged(rig, end))
            assert final_answers(heard) == expected
            assert apply(heard)[: len(expected)] == expected
            previewed = [
                each
                for told in heard
                if told.kind is Kind.TENTATIVE
                for each in answers_in(told.rows)
            ]
            assert not set(previewed) <= set(expected)
            wait_for(lambda: replica.status()["state"] == "STABLE")


def test_a_replica_that_is_started_again_amid_previews_corrects_them(tmp_path: Path) -> None:
    with Rig(tmp_path, streams=("a", "b"), timed=False, max_delay="300ms") as rig:
        address = rig.sources["b"].address
        with Proxy((address.host, address.port)) as proxy, Feeder(rig):
            routes = {"b": f"127.0.0.1:{proxy.port}"}
            rig.open(routes=routes)
            wait_for(lambda: rig.replicas["sums/1"].status()["stable_rows"] > 3)
            proxy.cut()
            wait_for(lambda: rig.replicas["sums/1"].status()["tentative_rows"] > 3)
            rig.close()
            rig.open(routes=routes)
            wait_for(lambda: rig.replicas["sums/1"].status()["tentative_rows"] > 3)
            proxy.heal()
            wait_for(lambda: rig.replicas["sums/1"].status()["state"] == "STABLE")
            wait_for(lambda: rig.boundary() > 0)
            end = rig.boundary()
            heard = rig.hear(end)
            end = heard[-1].boundary
            assert final_answers(heard) == right_answers(logged(rig, end))


# Inputs that are kept no longer


def outrun(rig: Rig, first: int, stop: int) -> None:
    """Bring so much that what comes next for a replica is kept no longer."""
    for start in range(first, stop, 100):
        rig.bring(start, start + 100)


def check_after_gap(rig: Rig, before: int, stop: int) -> None:
    """All that is final is right; something is missing after `before`, and then nothing is but
    what the stage itself keeps no longer."""
    heard = rig.final(end_of(stop), position=before, may_skip=True)
    assert set(heard) <= set(numbers(stop))
    assert heard == sorted(set(heard))
    assert heard[0][0] * SIZE > before
    assert heard[-100:] == numbers(stop)[-100:]


@pytest.mark.parametrize("retain", [None, "6s"])
def test_a_replica_whose_inputs_have_gone_on_converges(tmp_path: Path, retain: str | None) -> None:
    """Without `retain` of its own it starts over; with it, it skips."""
    with Rig(tmp_path, kept="6s", retain=retain) as rig:
        rig.open()
        rig.bring(0, 100)
        wait_for(lambda: rig.boundary() >= end_of(100))
        rig.close()
        outrun(rig, 100, 2000)
        rig.open()
        wait_for(lambda: rig.boundary() >= end_of(2000))
        rig.bring(2000, 2100)
        check_after_gap(rig, end_of(100), 2100)
        rig.close()
        rig.open()
        rig.bring(2100, 2200)
        check_after_gap(rig, end_of(100), 2200)


@pytest.mark.parametrize("retain", [None, "6s"])
@pytest.mark.parametrize("held", [Order.RESTART, Order.WORK])
def test_who_is_killed_while_it_skips_forgets_nothing_of_it(
    tmp_path: Path, retain: str | None, held: Order
) -> None:
    """Before Spark has emptied the state, and after, when nothing has been made of it."""
    with Rig(tmp_path, kept="6s", retain=retain) as rig:
        rig.open()
        rig.bring(0, 100)
        wait_for(lambda: rig.boundary() >= end_of(100))
        rig.close()
        outrun(rig, 100, 2000)
        rig.open(held=held)
        wait_for(lambda: rig.journaled(held))
        rig.close()
        rig.open()
        wait_for(lambda: rig.boundary() >= end_of(2000))
        rig.bring(2000, 2100)
        check_after_gap(rig, end_of(100), 2100)


def test_work_that_is_under_way_when_it_starts_over_counts_no_more(tmp_path: Path) -> None:
    with Rig(tmp_path, kept="6s") as rig:
        address = rig.sources["a"].address
        with Proxy((address.host, address.port)) as proxy:
            routes = {"a": f"127.0.0.1:{proxy.port}"}
            rig.open(routes=routes)
            rig.bring(0, 100)
            wait_for(lambda: rig.boundary() >= end_of(100))
            engine = rig.engines["sums/1"]
            engine.works = 0
            rig.bring(100, 200)
            wait_for(lambda: rig.journaled(Order.WORK))
            proxy.reset()
            outrun(rig, 200, 2000)
            proxy.heal()
            query = engine.query
            assert query is not None
            wait_for(lambda: any(each.order is Order.RESTART for each in query.journal.since(0)))
            engine.works = 1
            wait_for(lambda: Order.RESTART in engine.done and engine.works == 0)
            rig.close()
        rig.open()
        wait_for(lambda: rig.boundary() >= end_of(2000))
        rig.bring(2000, 2100)
        check_after_gap(rig, end_of(200), 2100)


# What others ask for


def test_rows_are_read_by_ticket_and_wrong_tickets_are_refused(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        replica = rig.open()
        rig.bring(0, 300)
        wait_for(lambda: rig.boundary() >= end_of(300))
        end = rig.boundary()
        with LogClient(replica.address) as client:
            whole = client.fetch(LogTicket("sums", 0, end).write())
            assert answers_in(whole) == numbers(300)
            assert whole.schema == replica.schema
            part = client.fetch(LogTicket("sums", 10 * SIZE, 20 * SIZE).write())
            assert answers_in(part) == [each for each in numbers(300) if 10 <= each[0] < 20]
            assert client.streams() == {"sums": replica.schema}
            before = replica.status()
            for wrong in (
                b"",
                b"{}",
                b"journal",
                b"journal 1",
                b"journal -1 0",
                b"[" * 10_000,
                b'{"stream": "sums", "start": 0.5, "end": 1}',
                b'{"stream": "sums", "start": 0, "end": 1, "more": 2}',
                LogTicket("sums", 0, end + 1).write(),
                LogTicket("sums", -1, end).write(),
                LogTicket("a", 0, end).write(),
                LogTicket("", 0, 0).write(),
                journal_ticket(10**9, 0),
                journal_ticket(replica._query.journal.last, 10**6),
            ):
                with pytest.raises(RefusedError):
                    client.fetch(wrong)
            with pytest.raises(RefusedError, match="push rows to the source"):
                client.push("sums", whole)
            with pytest.raises(RefusedError, match="ask for 'status'"):
                client.act("dance")
            after = json.loads(client.act("status"))
            assert after["refused"]
            for name in ("boundary", "start", "stable_rows", "log_bytes", "state"):
                assert after[name] == before[name]


def test_a_replica_without_state_has_nothing_to_read(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        replica = rig.open(held=Order.DROP)
        with LogClient(replica.address) as client:
            with pytest.raises(RefusedError, match="has no sums to read"):
                client.fetch(LogTicket("sums", 0, 0).write())
            assert not json.loads(client.act("status"))["ready"]


@contextmanager
def link_of(name: str, replica: Replica, heard: list[Message]) -> Iterator[Link]:
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


def test_only_a_peer_gets_a_copy_of_the_state(tmp_path: Path) -> None:
    with Rig(tmp_path, replicas=2) as rig:
        replica = rig.open()
        rig.bring(0, 300)
        wait_for(lambda: rig.boundary() >= end_of(300))
        heard: list[Message] = []
        # Its peer does not run: what is for that one does not go to who calls under its name.
        with (
            link_of("stranger", replica, heard) as stranger,
            link_of("sums/2", replica, heard) as peer,
        ):
            for number in range(100):
                assert stranger.send(StateRequest(number))
            assert peer.send(StateRequest(7))
            wait_for(lambda: replica._server.counts["messages"] >= 101)
            replica._loop.call(lambda now: None)
            rig.bring(300, 400)
            wait_for(lambda: rig.boundary() >= end_of(400))
        assert rig.engines["sums/1"].done.count(Order.COPY) == 1
        assert not any(isinstance(message, StateReply) for message in heard)


def strange(chance: random.Random) -> Message:
    """Any message; often one about a stream that there is."""
    message = draw_message(chance)
    if hasattr(message, "stream") and chance.random() < 0.5:
        facts = {each.name: getattr(message, each.name) for each in fields(message)}
        return type(message)(**facts | {"stream": chance.choice(["sums", "a"])})
    return message


def test_thousands_of_strange_messages_and_tickets_leave_it_working(tmp_path: Path) -> None:
    chance = random.Random(7)
    with Rig(tmp_path, replicas=2) as rig:
        replica = rig.open()
        rig.bring(0, 300)
        wait_for(lambda: rig.boundary() >= end_of(300))
        with link_of("stranger", replica, []) as one, link_of("größe", replica, []) as other:
            for link in (one, other):
                for _ in range(1000):
                    assert link.send(strange(chance))
            wait_for(lambda: one.outbox.sent == other.outbox.sent == 1000)
            wait_for(lambda: replica._server.counts["messages"] >= 2000)
        with LogClient(replica.address) as client:
            good = LogTicket("sums", 0, end_of(300)).write()
            for _ in range(300):
                with suppress(RefusedError):
                    client.fetch(mutate(chance, good))
        assert replica.failure is None
        assert rig.engines["sums/1"].done.count(Order.COPY) == 0
        rig.bring(300, 400)
        assert rig.final(end_of(400)) == numbers(400)
