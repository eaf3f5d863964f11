"""The state of a stage: windows and joins over chunks, forks, copies, and batches of any cut."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from math import nan

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast import aggregates
from holdfast.errors import StoreCorruptError
from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.stages.compile import TIME
from holdfast.pipeline.stages.entries import Entry, Order, Piece
from holdfast.pipeline.stages.states import StateFiles
from holdfast.spark.dataframe import window
from holdfast.storage.chunks import Chunk
from tests.pipeline.stages.gates import BUCKET
from tests.pipeline.stages.shards import MEASURES, Shards, join_kind, window_kind, work

DDL = "k string, v double"
FIRST = 1_700_000_000
"""The number of the first bucket."""
KEYS = ["a", "b", "c", None, ""]
EXACT = [1.0, -3.5, 1024.0, 0.0, nan, None]
VALUES = [1e300, -1e300, 0.1, 0.2, -0.0, 0.0, nan, None, 1e-300, 3.7]


def chunk(seed: int, bucket: int, values=VALUES) -> Chunk:
    rng = random.Random(f"{seed} {bucket}")
    times = sorted(bucket * BUCKET + rng.randrange(BUCKET) for _ in range(rng.randrange(25)))
    rows = [{"k": rng.choice(KEYS), "v": rng.choice(values)} for _ in times]
    schema = to_arrow_schema(StructType([TIME, *StructType.fromDDL(DDL).fields]), timezone="UTC")
    table = pa.Table.from_pylist(
        [dict.fromkeys(schema.names) | row | {STIME: None} for row in rows],
        schema=schema.set(0, schema.field(0).with_nullable(True)),
    )
    moments = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return Chunk.of(table.set_column(0, schema.field(0), moments))


def pieces(seed: int, bucket: int, inputs: int, values=VALUES) -> list[Piece]:
    return [Piece(at, bucket, chunk(seed * 10 + at, bucket, values)) for at in range(inputs)]


@pytest.fixture(autouse=True)
def _session(spark):
    """Spark reads schemas."""


KINDS = {
    "sliding": lambda: window_kind(DDL, ["k"], 4 * BUCKET, BUCKET),
    "uneven": lambda: window_kind(DDL, ["k"], 2_500_000, 700_000),
    "no key": lambda: window_kind(DDL, [], 3 * BUCKET, BUCKET),
    "join": lambda: join_kind(DDL, ["k"], 1_300_000),
}
START = work(FIRST - 1)


def chunks(results) -> dict[int, bytes]:
    """The digest of each bucket, none of which may come twice."""
    found = [(bucket, each.digest) for result in results for bucket, each in result.chunks]
    assert len(dict(found)) == len(found)
    return dict(found)


def rows(results) -> list[dict]:
    return [
        row for result in results for _, each in result.chunks for row in each.table().to_pylist()
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_how_entries_and_batches_are_cut_makes_no_difference(kind):
    buckets = range(FIRST, FIRST + 16)
    whole = [piece for bucket in buckets for piece in pieces(1, bucket, 2)]
    at_once = chunks(Shards(KINDS[kind]()).run(START, work(FIRST, *whole, buckets=16)))
    assert len(at_once) > 3
    one_by_one = Shards(KINDS[kind]())
    one_by_one.run(START)
    found = [one_by_one.run(work(bucket, *pieces(1, bucket, 2))) for bucket in buckets]
    assert chunks([result for some in found for result in some]) == at_once
    for seed in range(4):
        rng = random.Random(seed)
        shards, results, bucket = Shards(KINDS[kind]()), [], FIRST
        results += shards.run(START)
        while bucket < FIRST + 16:
            batch = []
            for _ in range(rng.randint(1, 4)):
                count = min(rng.randint(1, 5), FIRST + 16 - bucket)
                some = [p for b in range(bucket, bucket + count) for p in pieces(1, b, 2)]
                batch.append(work(bucket, *some, buckets=count))
                bucket += count
            results += shards.run(*batch)
        assert chunks(results) == at_once


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_base_and_fork_do_not_see_each_other(kind, seed, tmp_path):
    """Against runs in which there is only the one or the other."""
    rng = random.Random(seed)
    shards = Shards(KINDS[kind]())
    batch: list[Entry] = [START]
    wanted: list[dict[int, bytes] | None] = [{}]
    base: list[Entry] = [START]
    fork: list[Entry] | None = None

    def alone(entries: list[Entry]) -> dict[int, bytes]:
        *before, last = entries
        fresh = Shards(KINDS[kind]())
        if before:
            fresh.run(*before)
        (result,) = fresh.run(last)
        return chunks([result])

    def following(entries: list[Entry]) -> int:
        return entries[-1].end // BUCKET if entries else FIRST

    for _ in range(18):
        match rng.choice(["base"] * 4 + ["fork work"] * 4 + ["fork", "drop", "restart", "copy"]):
            case "base":
                bucket = following(base)
                base.append(work(bucket, *pieces(seed, bucket, 2)))
                batch.append(base[-1])
                wanted.append(alone(base))
            case "fork work" if fork is not None:
                bucket = following(fork)
                entry = work(bucket, *pieces(seed + 100, bucket, 2))
                fork.append(entry)
                batch.append(work(bucket, *entry.pieces, tentative=True))
                wanted.append(alone(fork))
            case "fork":
                fork = list(base)
                batch.append(Entry(0, Order.FORK))
                wanted.append({})
            case "drop":
                fork = None
                batch.append(Entry(0, Order.DROP))
                wanted.append({})
            case "restart":
                base = []
                batch.append(Entry(0, Order.RESTART))
                wanted.append({})
            case "copy":
                folder = str(tmp_path / str(shards.next)).encode()
                *done, _ = shards.run(*batch, Entry(0, Order.COPY, state=folder))
                assert [chunks([each]) for each in done] == wanted
                # What is installed is what was copied, and the fork does not notice.
                batch = [Entry(0, Order.RESTART), Entry(0, Order.INSTALL, state=folder)]
                wanted = [{}, {}]
        if rng.random() < 0.4 and batch:
            assert [chunks([each]) for each in shards.run(*batch)] == wanted
            batch, wanted = [], []
    if batch:
        assert [chunks([each]) for each in shards.run(*batch)] == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_a_copied_state_goes_on_as_the_original(kind, tmp_path):
    original, other = Shards(KINDS[kind]()), Shards(KINDS[kind]())
    for bucket in range(FIRST, FIRST + 9):
        original.run(work(bucket, *pieces(2, bucket, 2)))
    folder, empty = (str(tmp_path / name).encode() for name in ("copy", "empty"))
    (copied,) = original.run(Entry(0, Order.COPY, state=folder))
    files = StateFiles.read(copied.state).files
    written = {path.name: path.stat().st_size for path in (tmp_path / "copy").glob("*")}
    assert {each.name: each.size for each in files} == written
    Shards(KINDS[kind]()).run(Entry(0, Order.COPY, state=empty))
    other.run(work(5, *pieces(3, 5, 2)), Entry(0, Order.FORK))
    other.run(Entry(0, Order.INSTALL, state=folder))
    for bucket in range(FIRST + 9, FIRST + 15):
        entry = work(bucket, *pieces(2, bucket, 2))
        assert chunks(other.run(entry)) == chunks(original.run(entry))
    other.run(Entry(0, Order.INSTALL, state=empty))
    fresh = Shards(KINDS[kind]())
    entry = work(FIRST, *pieces(2, FIRST, 2))
    assert chunks(other.run(entry)) == chunks(fresh.run(entry))


@pytest.mark.parametrize(
    ("size", "slide", "inputs", "values"),
    [
        (4_000_000, 1_000_000, 1, VALUES),
        (2_500_000, 500_000, 1, VALUES),
        # Rows of a pane in several chunks are summed chunk by chunk: the same bits on all
        # replicas, but those of a batch only if the sums are exact.
        (6_000_000, 3_000_000, 2, EXACT),
        (1_500_000, 1_500_000, 2, EXACT),
    ],
)
def test_windows_are_those_of_a_batch_to_the_bit(spark, size, slide, inputs, values):
    buckets = range(FIRST, FIRST + 12)
    shards = Shards(window_kind(DDL, ["k"], size, slide))
    found = shards.run(START)
    for bucket in buckets:
        found += shards.run(work(bucket, *pieces(4, bucket, inputs, values)))
    everything = [p.chunk.table() for bucket in buckets for p in pieces(4, bucket, inputs, values)]
    df = spark.createDataFrame(pa.concat_tables(everything))
    batch = window(
        df, key="k", time=STIME, size=f"{size} us", slide=f"{slide} us", aggs=MEASURES, shards=2
    ).toArrow()
    limit = (FIRST + 12) * BUCKET
    wanted = [row for row in batch.to_pylist() if row["window"]["end"].timestamp() * 1e6 <= limit]

    def bits(row: dict) -> str:
        return repr([(name, row[name]) for name in ("k", "window", "n", "s", "m", "x", "l")])

    assert sorted(map(bits, rows(found))) == sorted(map(bits, wanted))
    assert wanted


def test_a_window_has_the_time_of_its_last_moment_and_keys_are_in_order():
    shards = Shards(window_kind(DDL, ["k"], 2 * BUCKET, BUCKET))
    found = shards.run(START, work(FIRST, *pieces(5, FIRST, 1), buckets=3))
    for result in found:
        for bucket, each in result.chunks:
            for row in each.table().to_pylist():
                end = round(row["window"]["end"].timestamp() * 1_000_000)
                assert round(row[STIME].timestamp() * 1_000_000) == end - 1
                assert end == (bucket + 1) * BUCKET


@pytest.mark.parametrize("within", [0, 1, 300_000, 1_000_000, 3_700_000])
def test_pairs_are_those_of_two_loops(within):
    shards = Shards(join_kind(DDL, ["k"], within))
    found, sides = [], ([], [])
    for bucket in range(FIRST, FIRST + 8):
        some = pieces(6, bucket, 2)[: 1 if bucket == FIRST + 3 else 2]
        for piece in some:
            sides[piece.input].extend(piece.chunk.table().to_pylist())
        found += shards.run(work(bucket, *some))
    wanted = defaultdict(list)
    for left in sides[0]:
        for right in sides[1]:
            apart = abs(left[STIME] - right[STIME]).total_seconds() * 1_000_000
            if left["k"] is not None and left["k"] == right["k"] and round(apart) <= within:
                newest = max(left[STIME], right[STIME])
                bucket = int(newest.timestamp()) * 1_000_000 // BUCKET
                wanted[bucket].append(repr((newest, left["k"], left["v"], right["v"])))
    got = {
        bucket: [repr(tuple(row.values())) for row in each.table().to_pylist()]
        for result in found
        for bucket, each in result.chunks
    }
    assert {b: sorted(some) for b, some in got.items()} == {
        b: sorted(some) for b, some in wanted.items()
    }
    if within > 1:
        assert wanted


HOSTILE = {
    "double": [nan, -nan, 0.0, -0.0, 1.5, float("inf"), None],
    "decimal(38,10)": [Decimal("0E-10"), Decimal("9999999999999999999999999999.9"), None],
    "array<double>": [[nan], [-0.0], [0.0], [None], [], None],
    "struct<a:string,b:array<int>>": [{"a": "x", "b": [1]}, {"a": None, "b": None}, None],
    "boolean": [True, False, None],
    "binary": [b"", b"\xff", None],
    "timestamp": [None],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_keys_of_every_kind(kind):
    """NaN is one key, and both zeros are one; nulls have windows, but no pairs."""
    values = HOSTILE[kind]
    schema = to_arrow_schema(
        StructType([TIME]).add("k", StructType.fromDDL(f"k {kind}")[0].dataType).add("v", "double"),
        timezone="UTC",
    )
    moments = pa.array(range(len(values)), pa.int64()).cast(pa.timestamp("us", "UTC"))
    table = pa.table(
        [moments, pa.array(values, schema.field("k").type), pa.array([1.0] * len(values))],
        schema=schema,
    )
    piece = Piece(0, 0, Chunk.of(table))
    measures = [aggregates.count().alias("n")]
    windows = Shards(window_kind(f"k {kind}, v double", ["k"], BUCKET, BUCKET, measures))
    (result,) = windows.run(work(0, piece))
    assert sum(row["n"] for row in rows([result])) == len(values)
    pairs = Shards(join_kind(f"k {kind}, v double", ["k"], BUCKET))
    (paired,) = pairs.run(work(0, piece, Piece(1, 0, piece.chunk)))
    counts = [row["n"] for row in rows([result]) if row["k"] is not None]
    assert len(rows([paired])) == sum(count * count for count in counts)


def test_chunks_without_rows_and_buckets_before_1970():
    shards = Shards(window_kind(DDL, ["k"], 2 * BUCKET, BUCKET))
    nothing = Chunk.of(chunk(1, 0).table().slice(0, 0))
    found = shards.run(work(-9), *(work(b, Piece(0, b, nothing)) for b in (-8, -7)))
    assert not rows(found)
    found = shards.run(work(-6, *pieces(7, -6, 2)), work(-5), work(-4), work(-3))
    assert {bucket for result in found for bucket, _ in result.chunks} == {-6, -5}


def test_work_for_a_fork_that_is_not_there_is_refused():
    with pytest.raises(StoreCorruptError, match=r"for a fork, and there is none.*empty folder"):
        Shards(KINDS["join"]()).run(work(FIRST, tentative=True))


def test_a_state_of_another_join_is_refused(tmp_path):
    shards = Shards(join_kind(DDL, ["k"], BUCKET))
    folder = str(tmp_path).encode()
    shards.run(work(FIRST, *pieces(1, FIRST, 2)), Entry(0, Order.COPY, state=folder))
    other = Shards(join_kind("k string, w bigint", ["k"], BUCKET))
    with pytest.raises(StoreCorruptError, match=r"the state is of pairs .* empty folder"):
        other.run(Entry(0, Order.INSTALL, state=folder), work(FIRST + 1))


def test_a_copy_that_finds_no_room_is_none_and_costs_nothing_else(tmp_path):
    """Whoever has the only state that is right must not end for it."""
    shards, undisturbed = (Shards(window_kind(DDL, ["k"], 2 * BUCKET, BUCKET)) for _ in range(2))
    first, second = (work(bucket, *pieces(1, bucket, 2)) for bucket in (FIRST, FIRST + 1))
    for each in (shards, undisturbed):
        each.run(first)
    folder = tmp_path / "copy"
    folder.mkdir()
    [whole] = shards.run(Entry(0, Order.COPY, state=str(tmp_path / "whole").encode()))
    names = [file.name for file in StateFiles.read(whole.state).files]
    (folder / f"{names[-1]}.unfinished").symlink_to("/dev/full")
    [copied] = shards.run(Entry(0, Order.COPY, state=str(folder).encode()))
    assert copied.state == b""
    assert not list(folder.glob("*.unfinished"))
    undisturbed.run(Entry(0, Order.COPY, state=str(tmp_path / "a").encode()))
    undisturbed.run(Entry(0, Order.COPY, state=str(tmp_path / "b").encode()))
    assert chunks(shards.run(second)) == chunks(undisturbed.run(second))


def test_a_state_that_is_cut_short_or_not_there_is_refused(tmp_path):
    kind = window_kind(DDL, ["k"], 2 * BUCKET, BUCKET)
    folder = str(tmp_path).encode()
    Shards(kind).run(work(FIRST, *pieces(1, FIRST, 2)), Entry(0, Order.COPY, state=folder))
    for path in tmp_path.glob("*"):
        data = path.read_bytes()
        for cut in (*range(30), len(data) - 1):
            path.write_bytes(data[:cut])
            with pytest.raises(StoreCorruptError, match="empty folder"):
                Shards(kind).run(Entry(0, Order.INSTALL, state=folder))
        path.unlink()
        with pytest.raises(StoreCorruptError, match="empty folder"):
            Shards(kind).run(Entry(0, Order.INSTALL, state=folder))
        path.write_bytes(data)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_calculated_again_is_the_same_and_changes_nothing(kind):
    buckets = range(FIRST, FIRST + 12)
    entries = [work(bucket, *pieces(1, bucket, 2)) for bucket in buckets]
    shards, undisturbed = Shards(KINDS[kind]()), Shards(KINDS[kind]())
    done = shards.run(START, *entries[:9])
    some = tuple(piece for entry in entries[3:9] for piece in entry.pieces)
    [again] = shards.run(replace(entries[8], order=Order.RERUN, pieces=some))
    wanted = chunks(done[-1:])
    assert {at: found for at, found in chunks([again]).items() if at in wanted} == wanted
    following = shards.run(*entries[9:])
    assert chunks(following) == chunks(undisturbed.run(START, *entries)[-3:])
