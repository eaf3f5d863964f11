"""What only real streaming queries show: watermarks, timers, restarts, late rows, metrics."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType, _parse_datatype_string

import holdfast
from holdfast import aggregates as agg
from holdfast.windows import Monoid
from tests.spark.streams import read_batches, run, write_batches

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

LONGEST = Monoid(
    "longest",
    identity="",
    lift=str,
    combine=lambda older, newer: max(older, newer, key=lambda word: (len(word), word)),
    lower=str,
)
AGGREGATES = [
    agg.count(),
    agg.sum("value"),
    agg.mean("value"),
    agg.first("value"),
    agg.last("word"),
    agg.max("word"),
    agg.approx_distinct("word"),
    agg.custom(LONGEST, "word", "string"),
]


@pytest.fixture(scope="module")
def schema(spark: SparkSession) -> StructType:
    return _parse_datatype_string(
        "site string, sensor int, at timestamp, value double, word string"
    )


def readings(rng: random.Random, count: int, first: float, last: float) -> list[dict[str, Any]]:
    return [
        {
            "site": rng.choice(["north", "south", None]),
            "sensor": rng.randrange(5),
            "at": START + timedelta(milliseconds=round(1000 * rng.uniform(first, last))),
            "value": rng.choice([None, rng.randrange(-20, 20) / 4]),
            "word": rng.choice(["a", "bb", "ccc", None]),
        }
        for _ in range(count)
    ]


def end(seconds: float) -> list[dict[str, Any]]:
    """A row so far ahead that all windows before it end."""
    at = START + timedelta(seconds=seconds)
    return [{"site": "end", "sensor": None, "at": at, "value": 0.0, "word": "end"}]


def windows(df: DataFrame, **options: Any) -> DataFrame:
    settings = {"size": "10s", "slide": "2s", "aggs": AGGREGATES, **options}
    if "windows" in options:
        del settings["size"], settings["slide"]
    return holdfast.window(df, key=["site", "sensor"], time="at", **settings)


def without_end(rows: list) -> Counter:
    return Counter(row for row in rows if row["site"] != "end")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"size": "7s", "slide": "3s", "offset": "1s"},
        {"windows": [holdfast.sliding("10s", "1s"), holdfast.tumbling("5s", name="five")]},
        {"size": "4s", "slide": "4s"},
        {"size": "4s", "slide": "4s", "aggs": [agg.count(), agg.range("value")]},
    ],
    ids=str,
)
def test_a_stream_gives_the_rows_that_the_same_call_gives_on_a_static_frame(
    spark: SparkSession, schema: StructType, tmp_path: Path, options: dict[str, Any]
) -> None:
    rng = random.Random(3)
    batches = [readings(rng, 80, at, at + 6) for at in (0, 4, 8, 30)]
    write_batches(tmp_path / "in", schema, [*batches, end(1000)])
    stream = read_batches(spark, tmp_path / "in", schema).withWatermark("at", "3 seconds")
    streamed, _ = run(windows(stream, **options), tmp_path / "checkpoint")
    static = windows(spark.read.parquet(str(tmp_path / "in")), **options).collect()
    assert len(streamed) > 50
    assert without_end(streamed) == without_end(static)


def test_late_rows_are_counted_and_delivered_once(
    spark: SparkSession, schema: StructType, tmp_path: Path
) -> None:
    rng = random.Random(4)
    spans = [(0, 4), (20, 24), (24, 26), (1, 30)]
    batches = [readings(rng, 40, *span) for span in spans]
    write_batches(tmp_path / "in", schema, [*batches, end(1000)])
    stream = read_batches(spark, tmp_path / "in", schema).withWatermark("at", "1 second")
    answers = windows(stream, late=str(tmp_path / "late"))
    rows, query = run(answers, tmp_path / "checkpoint")
    late = spark.read.parquet(str(tmp_path / "late"))
    given = spark.read.parquet(str(tmp_path / "in"))
    assert late.schema == given.schema
    assert 0 < late.count() < 40
    assert late.subtract(given).count() == 0
    observed = [progress.observedMetrics["holdfast"] for progress in query.recentProgress]
    assert sum(row.late or 0 for row in observed) == late.count()
    assert sum(row.rows or 0 for row in observed) == given.count() - late.count()
    assert sum(row.answers or 0 for row in observed) == len(rows)
    taken = given.exceptAll(late)
    assert without_end(rows) == without_end(windows(taken).collect())
    operators = [p.stateOperators[0].numRowsDroppedByWatermark for p in query.recentProgress]
    assert set(operators) == {0}


def test_early_rows_are_marked_and_followed_by_final_ones(
    spark: SparkSession, schema: StructType, tmp_path: Path
) -> None:
    rng = random.Random(5)
    batches = [readings(rng, 40, at, at + 3) for at in (0, 2, 4, 6)]
    write_batches(tmp_path / "in", schema, [*batches, end(1000)])
    stream = read_batches(spark, tmp_path / "in", schema).withWatermark("at", "2 seconds")
    rows, _ = run(windows(stream, emit="early"), tmp_path / "checkpoint", "update")
    latest = {}
    for row in rows:
        key = row["site"], row["sensor"], row["window"]
        assert key not in latest or not latest[key]["final"], "an early row after the final one"
        latest[key] = row
    early = [row for row in rows if not row["final"]]
    assert len(early) > 20
    final = [row for row in rows if row["final"]]
    plain = windows(spark.read.parquet(str(tmp_path / "in")), emit="early").collect()
    assert without_end(final) == without_end(plain)
    shown = {(row["site"], row["sensor"], row["window"]) for row in early if row["site"] != "end"}
    assert shown <= {(row["site"], row["sensor"], row["window"]) for row in final}


def test_a_known_key_gets_empty_windows_for_a_while(
    spark: SparkSession, schema: StructType, tmp_path: Path
) -> None:
    row = {"site": "a", "sensor": 1, "at": START, "value": 1.0, "word": "x"}
    write_batches(tmp_path / "in", schema, [[row], end(60), end(1000)])
    stream = read_batches(spark, tmp_path / "in", schema).withWatermark("at", "1 second")
    aggs = [agg.count(), agg.sum("value")]
    answers = windows(stream, size="2s", slide="2s", aggs=aggs, empty="6s")
    rows, _ = run(answers, tmp_path / "checkpoint")
    got = sorted(
        (
            (row.window.start - START.replace(tzinfo=None)).seconds,
            row["count(1)"],
            row["sum(value)"],
        )
        for row in rows
        if row.site == "a"
    )
    assert got == [(0, 1, 1.0), (2, 0, None), (4, 0, None), (6, 0, None)]


def test_a_query_goes_on_from_its_checkpoint_and_refuses_that_of_another(
    spark: SparkSession, schema: StructType, tmp_path: Path
) -> None:
    rng = random.Random(6)
    first, second = [[readings(rng, 60, at, at + 5) for at in times] for times in ((0, 4), (8, 12))]
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write_batches(folder, schema, first)

    def stream() -> DataFrame:
        return read_batches(spark, folder, schema).withWatermark("at", "2 seconds")

    before, _ = run(windows(stream()), checkpoint)
    write_batches(folder, schema, second)
    with pytest.raises(StreamingQueryException, match="another checkpointLocation"):
        run(windows(stream(), aggs=[agg.count()]), checkpoint)
    with pytest.raises(StreamingQueryException, match="another checkpointLocation"):
        run(windows(stream(), size="20s"), checkpoint)
    write_batches(folder, schema, [end(1000)])
    after, _ = run(windows(stream()), checkpoint)
    static = windows(spark.read.parquet(str(folder))).collect()
    assert before
    assert without_end([*before, *after]) == without_end(static)


def test_few_pairs_are_read_however_long_the_window(
    spark: SparkSession, schema: StructType, tmp_path: Path
) -> None:
    rng = random.Random(7)
    batches = [readings(rng, 400, 0, 600)]
    batches += [readings(rng, 20, 600 + i, 601 + i) for i in range(4)]
    write_batches(tmp_path / "in", schema, batches)
    stream = read_batches(spark, tmp_path / "in", schema).withWatermark("at", "0 seconds")
    answers = windows(stream, size="10 minutes", slide="1s", aggs=[agg.count()], shards=1)
    _, query = run(answers, tmp_path / "checkpoint")
    observed = [progress.observedMetrics["holdfast"] for progress in query.recentProgress]
    steady = [row for row in observed if row.panes][-4:]
    assert [row.panes >= 590 for row in steady] == [True] * 4
    assert [row.pairs_read for row in steady if row.pairs_read > 2 * 10] == []
    state = spark.read.format("statestore").option("stateVarName", "pairs")
    pairs = state.load(str(tmp_path / "checkpoint")).select("user_map_key.*")
    assert pairs.columns == ["level", "position"]
    assert pairs.count() >= 500


def test_times_without_a_zone_and_other_session_zones(spark: SparkSession, tmp_path: Path) -> None:
    plain = _parse_datatype_string("sensor int, at timestamp_ntz, value double")
    rows = [
        {"sensor": 1, "at": datetime(2026, 3, 1, 12, 0, i), "value": float(i)} for i in range(9)
    ]
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], plain)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for df in (frame, frame.withColumn("at", F.col("at").cast("timestamp"))):
            ours = holdfast.window(
                df, key="sensor", time="at", size="4s", slide="2s", aggs=[agg.sum("value")]
            )
            theirs = df.groupBy("sensor", F.window("at", "4 seconds", "2 seconds")).agg(
                F.sum("value")
            )
            assert ours.schema.simpleString() == theirs.schema.simpleString()
            assert Counter(ours.collect()) == Counter(theirs.collect())
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
