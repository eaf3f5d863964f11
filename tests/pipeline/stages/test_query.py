"""Stages as queries of Spark: one for each kind, stopped and started again on the way."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from math import nan
from pathlib import Path

import pyarrow as pa
import pytest

from harness.waiting import wait_for
from holdfast import aggregates
from holdfast.errors import StoreCorruptError
from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.stages import query
from holdfast.pipeline.stages.entries import Entry, Order, Piece
from holdfast.pipeline.stages.states import StateFiles
from holdfast.pipeline.topology import (
    Function,
    Join,
    Push,
    Select,
    Sql,
    Stage,
    Stream,
    Topology,
    Where,
    Window,
)
from holdfast.storage.chunks import Chunk
from tests.pipeline.stages.gates import BUCKET
from tests.pipeline.stages.replicas import RunningStage
from tests.pipeline.stages.shards import Shards, join_kind, window_kind, work

FIRST = 1_700_000_000
SCHEMA = {"k": "string", "v": "double"}
MODULE = """
def ranked(frame):
    frame["place"] = range(len(frame))
    return frame
"""
AGGREGATES = ["count() AS n", "sum(v) AS s"]


@pytest.fixture(scope="module")
def topology(tmp_path_factory) -> Topology:
    home = tmp_path_factory.mktemp("topology")
    (home / "ranking_functions.py").write_text(MODULE)
    ports = iter(range(7001, 7100))

    def address() -> str:
        return f"127.0.0.1:{next(ports)}"

    def stage(*steps, shards: int = 2) -> Stage:
        return Stage(inputs=["a", "b"], replicas=[address()], steps=list(steps), shards=shards)

    function = Function("ranking_functions:ranked", SCHEMA | {"place": "bigint"})
    window = Window(size="3s", slide="1s", keys=["k"], aggregates=AGGREGATES)
    join = Join(keys=["k"], within="1500ms")
    return Topology(
        name="t",
        bucket="1s",
        home=home,
        streams={
            name: Stream(source=Push(schema=SCHEMA), address=address()) for name in ("a", "b")
        },
        stages={
            "plain": stage(Where("v > -5"), Select(["*"]), function, Where("place < 100")),
            "rows": stage(Where("v > -5"), Sql("SELECT *, v + 1 AS w FROM input WHERE k <> 'b'")),
            "windows": stage(Where("k IS NOT NULL"), window, Select(["k", "n", "s"])),
            "joined": stage(join),
            "joined-windows": stage(
                join, Window(size="2s", keys=["k"], aggregates=["count() AS n"]), shards=1
            ),
        },
    )


def chunk(seed: int, bucket: int) -> Chunk:
    rng = random.Random(f"{seed} {bucket}")
    count = rng.randint(1, 30)
    times = sorted(bucket * BUCKET + rng.randrange(BUCKET) for _ in range(count))
    return Chunk.of(
        pa.table(
            {
                STIME: pa.array(times).cast(pa.timestamp("us", "UTC")),
                "k": [rng.choice(["a", "b", "c", None]) for _ in times],
                "v": pa.array([rng.choice([0.5, -0.0, nan, None, 7.0]) for _ in times]),
            }
        ).cast(
            pa.schema(
                [
                    pa.field(STIME, pa.timestamp("us", "UTC"), nullable=False),
                    ("k", pa.string()),
                    ("v", pa.float64()),
                ]
            )
        )
    )


def pieces(seed: int, bucket: int) -> list[Piece]:
    return [Piece(at, bucket, chunk(seed * 10 + at, bucket)) for at in (0, 1)]


def rows(results) -> list[str]:
    found = [
        (bucket, *row.values())
        for result in results
        for bucket, each in result.chunks
        for row in each.table().to_pylist()
    ]
    return sorted(map(repr, found))


def digests(results) -> list[list[tuple[int, bytes]]]:
    return [[(bucket, each.digest) for bucket, each in result.chunks] for result in results]


def scenario(stage: RunningStage, model: Shards | None) -> list:
    """Go through all that may happen; answers the results of the base in order."""
    buckets = range(FIRST, FIRST + 6)
    entries = [work(FIRST - 1), *(work(bucket, *pieces(1, bucket)) for bucket in buckets)]
    base = stage.run(*entries[:3])
    base += [result for entry in entries[3:5] for result in stage.run(entry)]

    # A batch that is not committed is done again, and gives the same.
    stage.refuse = lambda result: result.entry == 7
    numbers = [stage.query.submit(entry) for entry in entries[5:7]]
    assert numbers == [6, 7]
    assert "this was refused" in stage.wait_for_failure()
    assert not stage.query.is_damaged
    stage.refuse = lambda result: False
    stage.start()
    fork = [Entry(0, Order.FORK), work(FIRST + 6, *pieces(2, FIRST + 6), tentative=True)]
    forked = stage.run(*fork)[1]
    by_number = {each.entry: each for each in stage.delivered}
    base += [by_number[6], by_number[7]]

    # The base goes on beside the fork, then without it, also after a restart.
    stage.restart()
    following = work(FIRST + 6, *pieces(1, FIRST + 6))
    folder = str(stage.folder / "copy").encode()
    copy = Entry(0, Order.COPY, state=folder)
    base += stage.run(following, Entry(0, Order.DROP), copy)[:1]
    copied = stage.delivered[-1]
    assert copied.order is Order.COPY
    files = StateFiles.read(copied.state).files
    assert {each.name for each in files} == {
        path.name for path in (stage.folder / "copy").glob("*")
    }
    last = work(FIRST + 7, *pieces(1, FIRST + 7))
    again = stage.run(last, Entry(0, Order.RESTART), Entry(0, Order.INSTALL, state=folder), last)
    assert digests(again[:1]) == digests(again[3:])
    base.append(again[0])
    if model is not None:
        wanted = model.run(*entries)
        (preview,) = model.run(*fork)[1:]
        assert rows([forked]) == rows([preview])
        wanted += model.run(following, Entry(0, Order.DROP), last)
        assert rows(base) == rows(wanted)
    # Nothing was lost, and what came again, since a stop came before its commit, was the same.
    first = {each.entry: each for each in reversed(stage.delivered)}
    assert sorted(first) == list(range(1, max(first) + 1))
    for each in stage.delivered:
        assert digests([each]) == digests([first[each.entry]])
    return base


def has_worked(stage: RunningStage, rows: int) -> bool:
    """Spark tells of a batch after its results were delivered."""
    said = stage.query.progress or {}
    return said.get("inputRows") == rows and said["busySeconds"] > 0


def all_work() -> list[Entry]:
    """What the base does in the scenario."""
    buckets = range(FIRST, FIRST + 8)
    return [work(FIRST - 1), *(work(bucket, *pieces(1, bucket)) for bucket in buckets)]


def test_a_stage_without_state(spark, topology, tmp_path):
    with RunningStage(spark, topology, "plain", tmp_path) as stage:
        base = scenario(stage, None)
    for result, bucket in zip(base[1:], range(FIRST, FIRST + 8), strict=True):
        wanted = []
        for piece in pieces(1, bucket):
            kept = [row for row in piece.chunk.table().to_pylist() if _above(row["v"])]
            wanted += [(r[STIME], piece.input, at, r) for at, r in enumerate(kept)]
        ((_, found),) = result.chunks
        assert [row["place"] for row in found.table().to_pylist()] == [
            place for *_, place, _ in sorted(wanted, key=lambda each: each[:3])
        ]


def test_rows_that_spark_reads_by_itself(spark, topology, tmp_path, monkeypatch):
    """They are those that come through the gate source, to the bit."""
    with RunningStage(spark, topology, "rows", tmp_path / "files") as stage:
        base = scenario(stage, None)
    monkeypatch.setattr(query, "is_possible", lambda spark, compiled: False)
    with RunningStage(spark, topology, "rows", tmp_path / "gate") as stage:
        assert digests(stage.run(*all_work())) == digests(base)
        brought = sum(piece.chunk.rows for entry in all_work() for piece in entry.pieces)
        wait_for("what Spark has done", lambda: has_worked(stage, brought), 60)
    assert sum(chunk.rows for result in base for _, chunk in result.chunks) > 20


@pytest.mark.parametrize("name", ["plain", "joined-windows"])
def test_a_bucket_is_calculated_again(spark, topology, tmp_path, name):
    """With the rows before it that its answer depends on, and the base stays as it is."""
    entries = [work(FIRST + at, *pieces(1, FIRST + at)) for at in range(8)]
    some = [piece for entry in entries[2:7] for piece in entry.pieces]
    rerun = replace(entries[6], order=Order.RERUN, start=entries[2].start, pieces=tuple(some))
    with RunningStage(spark, topology, name, tmp_path) as stage:
        done = stage.run(work(FIRST - 1), *entries[:7])
        [again] = stage.run(rerun)
        [following] = stage.run(entries[7])
    assert again.order is Order.RERUN
    wanted = dict(digests(done)[-1])
    assert {bucket: each.digest for bucket, each in again.chunks if bucket in wanted} == wanted
    with RunningStage(spark, topology, name, tmp_path / "fresh") as stage:
        undisturbed = stage.run(work(FIRST - 1), *entries)
    assert digests([following]) == digests(undisturbed[-1:])


def _above(value: float | None) -> bool:
    """NaN is the largest number in Spark."""
    return value is not None and not value <= -5


class _Windows(Shards):
    """As the stage has it: rows with a key, and of the answers some columns."""

    def run(self, *entries):
        def kept(piece: Piece) -> Piece:
            table = piece.chunk.table()
            return replace(piece, chunk=Chunk.of(table.filter(table["k"].is_valid())))

        some = [replace(each, pieces=tuple(map(kept, each.pieces))) for each in entries]
        return [
            replace(
                result,
                chunks=tuple(
                    (bucket, Chunk.of(each.table().select([STIME, "k", "n", "s"])))
                    for bucket, each in result.chunks
                ),
            )
            for result in super().run(*some)
        ]


def test_a_stage_with_a_window(spark, topology, tmp_path):
    measures = [aggregates.count().alias("n"), aggregates.sum("v").alias("s")]
    model = _Windows(window_kind("k string, v double", ["k"], 3 * BUCKET, BUCKET, measures))
    with RunningStage(spark, topology, "windows", tmp_path) as stage:
        scenario(stage, model)


def break_checkpoint(stage: RunningStage, checkpoint: Path) -> None:
    """What is missing from it is told, at the start of the query or soon after."""
    stage.query.stop()
    metadata = (checkpoint / "metadata").read_bytes()
    (checkpoint / "metadata").unlink()
    with pytest.raises(StoreCorruptError, match=r"checkpoint: .*metadata file is missing"):
        stage.start()
    # Spark passes on the errors of Hadoop, which has checksums, and of its JSON parser as they are.
    (checkpoint / "metadata").write_bytes(metadata[:7])
    with pytest.raises(StoreCorruptError, match=r"Checksum error: .*checkpoint/metadata"):
        stage.start()
    (checkpoint / ".metadata.crc").unlink()
    with pytest.raises(StoreCorruptError, match=r"checkpoint: .*jackson"):
        stage.start()
    (checkpoint / "metadata").write_bytes(metadata)
    numbers = sorted(int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*"))
    (checkpoint / "offsets" / str(numbers[-2])).unlink()
    (checkpoint / "commits" / str(numbers[-1])).unlink(missing_ok=True)
    stage.start()
    assert "not found in offset log" in stage.wait_for_failure()
    assert stage.query.is_damaged


def break_journal(stage: RunningStage) -> None:
    """A new entry must not get the number of one that Spark has planned: the query would wait for
    ever, or take the one for the other."""
    stage.query.stop()
    journal = stage.query.journal
    newest = journal.folder / f"{journal.last:012d}.entry"
    entry = newest.read_bytes()
    newest.unlink()
    with pytest.raises(StoreCorruptError, match=r"journal: .* the last .* empty folder"):
        stage.start()
    newest.write_bytes(entry)


def test_a_stage_with_a_join(spark, topology, tmp_path):
    """What else may happen to it happens to the one with a window behind."""
    with RunningStage(spark, topology, "joined", tmp_path) as stage:
        pairs = stage.run(*all_work())
    model = Shards(join_kind("k string, v double", ["k"], 1_500_000))
    assert rows(pairs) == rows(model.run(*all_work()))


def test_a_stage_with_a_join_and_a_window(spark, topology, tmp_path):
    with RunningStage(spark, topology, "joined-windows", tmp_path) as stage:
        base = scenario(stage, None)
        break_journal(stage)
        break_checkpoint(stage, tmp_path / "checkpoint")
    joined = Shards(join_kind("k string, v double", ["k"], 1_500_000))
    pairs = joined.run(*(work(b, *pieces(1, b)) for b in range(FIRST, FIRST + 8)))
    wanted = Counter(
        (bucket // 2, row["k"])
        for result in pairs
        for bucket, each in result.chunks
        for row in each.table().to_pylist()
    )
    found = {
        (bucket // 2, row["k"]): row["n"]
        for result in base
        for bucket, each in result.chunks
        for row in each.table().to_pylist()
    }
    assert found == wanted
