"""A stage whose Spark is a thread with plain Arrow.

Of even values, it says how many there were in the last five buckets and what they sum up to. So
there is a state, which converges, and the right answer is a few lines of Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from holdfast.pipeline.stages.entries import Entry, Journal, Order
from holdfast.pipeline.stages.operator import CHANGES_BASE
from holdfast.pipeline.stages.query import Result
from holdfast.pipeline.stages.states import StateFiles, StateWriter, file_name
from holdfast.pipeline.topology import Topology
from holdfast.spark.partials import shard_labels
from holdfast.storage.chunks import Chunk

SIZE = 50_000
"""Of a bucket."""
BUCKETS = 5
"""In a window."""
SHARDS = 2
STEP = 10_000
"""Between two rows."""
INPUT = StructType(
    [StructField("stime", TimestampType(), nullable=False), StructField("value", LongType())]
)
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


State = dict[int, list[int]]


def roll(state: State, bucket: int, values: Iterable[int]) -> Answer | None:
    """Put a bucket into the state; what the window that ends with it says."""
    even = [value for value in values if value % 2 == 0]
    for old in [each for each in state if each <= bucket - BUCKETS]:
        del state[old]
    if not even:
        return None
    state[bucket] = [len(even), sum(even)]
    return bucket, *(sum(each[at] for each in state.values()) for at in (0, 1))


def compile_fake(spark: object, topology: Topology, stage: str) -> SimpleNamespace:
    """What is known of the stage before it runs."""
    inputs = [INPUT for _ in topology.stages[stage].inputs]
    stateful = topology.stages[stage].window is not None
    published = PUBLISHED if stateful else INPUT
    return SimpleNamespace(published=published, inputs=inputs, stateful=stateful)


def right_answers(rows: Iterable[tuple[int, int]]) -> list[Answer]:
    """What comes of rows, given by their time and value."""
    buckets: dict[int, list[int]] = {}
    for stime, value in rows:
        buckets.setdefault(stime // SIZE, []).append(value)
    state: dict[int, list[int]] = {}
    answers = (roll(state, bucket, buckets[bucket]) for bucket in sorted(buckets))
    return [answer for answer in answers if answer is not None]


def _is_set() -> Event:
    event = Event()
    event.set()
    return event


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
    padding: int = 0
    """Mebibytes that the state of a shard has beside what it needs."""
    copying: Event = field(default_factory=_is_set)
    """Set when copies of the state may be finished."""
    newest: int | None = None
    """The last entry that was done, once it is known."""
    query: FakeQuery | None = None
    falsify: Callable[[Order, int, Chunk], Chunk] | None = None
    """What the machine makes of a bucket of an answer."""


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
        self.is_damaged = False
        self.progress = {"durationMs": {"triggerExecution": 250}}
        self._engine = engine
        self._stateful = compiled.stateful
        self._checkpoint = folder / "checkpoint"
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
        done = applied = 0
        if self._checkpoint.exists():
            done, base, fork, applied = _read_states(self._checkpoint.read_text())
        self._engine.newest = done
        try:
            while not self._ending.wait(0.002):
                for entry in list(self.journal.since(done)):
                    while not self._may(entry.order):
                        if self._ending.wait(0.002):
                            return
                    result, base, fork = self._carry_out(entry, base, fork)
                    if entry.order in CHANGES_BASE and not entry.tentative:
                        applied = entry.number
                    if entry.order is Order.DROP and self._stateful:
                        result = replace(result, applied=applied)
                    while not self._engine.delivers:
                        if self._ending.wait(0.002):
                            return
                    for _ in range(1 + self._engine.twice):
                        self._deliver(result)
                    done = entry.number
                    self._engine.done.append(entry.order)
                    self._engine.newest = done
                    if self._engine.commits:
                        self._commit(done, base, fork, applied)
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    def _carry_out(
        self, entry: Entry, base: State, fork: State | None
    ) -> tuple[Result, State, State | None]:
        if self._stateful:
            result, base, fork = _carry_out(entry, base, fork, self._engine)
        else:
            chunks = tuple(_pass_on(entry)) if entry.order in (Order.WORK, Order.RERUN) else ()
            result = Result(entry.number, entry.order, chunks, StateFiles(()).write())
        if (falsify := self._engine.falsify) is not None:
            told = tuple((at, falsify(entry.order, at, chunk)) for at, chunk in result.chunks)
            result = replace(result, chunks=told)
        return result, base, fork

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


def _read_states(text: str) -> tuple[int, State, State | None, int]:
    done, base, fork, applied = json.loads(text)
    return done, _numbered(base), None if fork is None else _numbered(fork), applied


def _numbered(state: dict[str, list[int]]) -> dict[int, list[int]]:
    return {int(bucket): sums for bucket, sums in state.items()}


def _carry_out(
    entry: Entry, base: dict[int, list[int]], fork: dict[int, list[int]] | None, engine: Engine
) -> tuple[Result, dict[int, list[int]], dict[int, list[int]] | None]:
    chunks: tuple[tuple[int, Chunk], ...] = ()
    copy = b""
    match entry.order:
        case Order.WORK:
            state = fork if entry.tentative else base
            assert state is not None, "there is no fork"
            chunks = tuple(_work(entry, state))
        case Order.RERUN:
            chunks = tuple(_work(entry, {}))
        case Order.FORK:
            fork = {bucket: list(sums) for bucket, sums in base.items()}
        case Order.DROP:
            fork = None
        case Order.RESTART:
            base = {}
        case Order.INSTALL:
            text = (Path(entry.state.decode()) / file_name(0, shard_labels(SHARDS)[0])).read_bytes()
            base = _numbered(json.loads(text.rstrip(b"\0")))
        case Order.COPY:
            reports = {}
            for shard in shard_labels(SHARDS):
                path = Path(entry.state.decode()) / file_name(0, shard)
                with StateWriter(path) as file:
                    file.write(json.dumps(base).encode())
                    for _ in range(engine.padding):
                        file.write(bytes(2**20))
                reports[shard] = [file.report]
            engine.copying.wait()
            copy = StateFiles.of(reports).write()
    return Result(entry.number, entry.order, chunks, copy), base, fork


def _pass_on(entry: Entry) -> Iterator[tuple[int, Chunk]]:
    """A stage without state: the rows of each bucket whose value is not divisible by three."""
    for piece in entry.pieces:
        table = piece.chunk.table().select(INPUT.names)
        kept = [value % 3 != 0 for value in table["value"].to_pylist()]
        if any(kept):
            yield piece.bucket, Chunk.of(table.filter(kept))


def _work(entry: Entry, state: dict[int, list[int]]) -> Iterator[tuple[int, Chunk]]:
    buckets: dict[int, list[int]] = {}
    for piece in entry.pieces:
        buckets.setdefault(piece.bucket, []).extend(piece.chunk.table()["value"].to_pylist())
    for bucket in sorted(buckets):
        answer = roll(state, bucket, buckets[bucket])
        if answer is not None:
            times = pa.array([bucket * SIZE], pa.int64()).cast(SCHEMA.field("stime").type)
            yield bucket, Chunk.of(pa.table([times, [answer[1]], [answer[2]]], schema=SCHEMA))
