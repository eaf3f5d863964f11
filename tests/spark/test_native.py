"""The native plan: Spark's SQL is the oracle for answers, real queries show that it is guarded."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from holdfast import aggregates as agg
from holdfast.aggregates import Aggregate
from holdfast.errors import InvalidArgumentError
from holdfast.spark.batch import native_aggregation, native_window
from holdfast.spark.keys import Keys
from holdfast.spark.measures import measure_of
from holdfast.windows import monoids
from tests.spark.streams import read_batches, run, write_batches

SECOND = 1_000_000
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CHECK = "spark.sql.streaming.stateStore.stateSchemaCheck"

NUMBERS = {
    "tiny": "cast(id * 5 - 128 as tinyint)",
    "whole": "(id - 25) * 180143985094819840",
    "single": "cast(if(id % 11 = 0, 'nan', id / 3) as float)",
    "double": "if(id % 13 = 0, -0.0d, id / 7d)",
    "fixed": "cast(id / 9 as decimal(20, 4))",
}
OF_NUMBERS = {
    agg.count: "count({})",
    agg.sum: "sum({})",
    agg.mean: "avg({})",
    agg.min: "min({})",
    agg.max: "max({})",
    agg.variance: "var_samp({})",
    agg.variance_population: "var_pop({})",
    agg.stddev: "stddev_samp({})",
    agg.stddev_population: "stddev_pop({})",
}


@pytest.fixture(scope="module")
def numbers(spark: SparkSession) -> DataFrame:
    """Rows with NULLs everywhere, also in the key and in the time."""
    columns = [F.expr(f"if(id % 4 = 3, null, {e})").alias(name) for name, e in NUMBERS.items()]
    return spark.range(50).select(
        F.expr("if(id % 3 = 0, null, concat('k', id % 3))").alias("a key"),
        F.expr("if(id = 7, null, timestamp_seconds(id - 20))").alias("at"),
        F.expr("timestamp_ntz'2026-01-01' + make_dt_interval(0, 0, 0, id)").alias("local"),
        F.expr("cast(id as string)").alias("text"),
        F.expr("cast(id as decimal(38, 4))").alias("widest"),
        *columns,
    )


def native(
    df: DataFrame,
    aggregates: list[Aggregate],
    *,
    key: str | list[str] = "a key",
    time: str = "at",
    size: int = 10,
    offset: int = 0,
) -> DataFrame:
    signature = repr((key, size, offset, [(one.function, one.column) for one in aggregates]))
    keys = Keys.of(df.schema, key)
    return native_window(df, keys, time, size * SECOND, offset * SECOND, aggregates, signature)


def rows_of(df: DataFrame) -> list[str]:
    """NaN is not equal to itself, but what it is written as is."""
    return sorted(map(repr, df.collect()))


def test_answers_are_those_of_sparks_sql(numbers: DataFrame) -> None:
    aggregates = [agg.count(), agg.min("text").alias("least text")]
    wanted = ["count(1)", "min(text) as `least text`"]
    for column in NUMBERS:
        aggregates += [of(column).alias(f"{of.__name__} {column}") for of in OF_NUMBERS]
        wanted += [
            f"{sql.format(column)} as `{of.__name__} {column}`" for of, sql in OF_NUMBERS.items()
        ]
    ours = native(numbers, aggregates, offset=13)
    numbers.createOrReplaceTempView("numbers")
    spark = numbers.sparkSession.sql(
        "select `a key`, window(at, '10 seconds', '10 seconds', '3 seconds') as window, "
        f"{', '.join(wanted)} from numbers group by 1, 2"
    )
    assert ours.schema.simpleString() == spark.schema.simpleString()
    assert rows_of(ours) == rows_of(spark)


def test_ranges_do_not_overflow(numbers: DataFrame) -> None:
    ours = native(numbers, [agg.range(column) for column in NUMBERS], size=3600)
    wide = {"tiny": "bigint", "whole": "bigint", "single": "double", "double": "double"}
    wanted = [
        f"cast(max({of}) as {wide.get(of, 'decimal(20, 4)')})"
        f" - cast(min({of}) as {wide.get(of, 'decimal(20, 4)')}) as `range({of})`"
        for of in NUMBERS
    ]
    numbers.createOrReplaceTempView("numbers")
    spark = numbers.sparkSession.sql(
        f"select `a key`, window(at, '1 hour') as window, {', '.join(wanted)} "
        "from numbers group by 1, 2"
    )
    assert rows_of(ours) == rows_of(spark)
    assert max(row["range(tiny)"] for row in ours.collect()) > 127


def test_local_times_and_no_keys(numbers: DataFrame) -> None:
    ours = native(numbers, [agg.count()], key=[], time="local", size=86_400, offset=-3600)
    row = ours.collect()
    assert ours.columns == ["window", "count(1)"]
    assert [(one["window"]["start"], one["count(1)"]) for one in row] == [
        (datetime(2025, 12, 31, 23), 50)
    ]


def test_results_have_the_types_that_measures_have(numbers: DataFrame) -> None:
    for of in [*OF_NUMBERS, agg.range]:
        aggregates = [of(column) for column in NUMBERS]
        answered = native(numbers, aggregates).schema
        for aggregate in aggregates:
            measured = measure_of(aggregate, numbers.schema).result_type
            assert answered[aggregate.name].dataType == measured, aggregate


@pytest.mark.parametrize(
    "aggregate",
    [
        agg.first("whole"),
        agg.last("whole"),
        agg.approx_distinct("whole"),
        agg.approx_quantiles("whole", [0.5]),
        agg.custom(monoids.sum, "whole", "long"),
        agg.range("at"),
        agg.range("widest"),
    ],
    ids=lambda aggregate: aggregate.name,
)
def test_what_spark_does_otherwise_is_not_native(numbers: DataFrame, aggregate: Aggregate) -> None:
    assert native_aggregation(aggregate, numbers.schema) is None


# Streaming

SCHEMA = (
    StructType()
    .add("k", "string")
    .add("at", "timestamp")
    .add("other", "timestamp")
    .add("a", "long")
    .add("b", "long")
)
AGGREGATES = [agg.sum("a").alias("total"), agg.count()]


def batch(first: int, last: int) -> list[dict[str, Any]]:
    times = [(second, START + timedelta(seconds=second)) for second in range(first, last)]
    return [
        {"k": f"k{second % 3}", "at": at, "other": at, "a": second, "b": -second}
        for second, at in times
    ]


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of what is in a folder."""
    write_batches(tmp_path / "in", SCHEMA, [batch(0, 60), batch(60, 120)])
    return read_batches(spark, tmp_path / "in", SCHEMA)


def streaming(rows: DataFrame, aggregates: list[Aggregate], **change: Any) -> DataFrame:
    """Windows that stay open for a minute."""
    timely = rows.withWatermark(change.get("time", "at"), "60 seconds")
    return native(timely, aggregates, key="k", **change)


def totals(answers: list[Row]) -> dict[tuple[str, datetime], tuple[int, int]]:
    found = {(row["k"], row["window"]["start"]): (row["total"], row["count(1)"]) for row in answers}
    assert len(found) == len(answers)
    return found


def test_a_query_goes_on_from_its_checkpoint(rows: DataFrame, tmp_path: Path) -> None:
    first, _ = run(streaming(rows, AGGREGATES), tmp_path / "checkpoint")
    write_batches(tmp_path / "in", SCHEMA, [batch(120, 200), batch(200, 300)])
    second, _ = run(streaming(rows, AGGREGATES), tmp_path / "checkpoint")
    static = rows.sparkSession.createDataFrame(batch(0, 300), SCHEMA)
    wanted = totals(native(static, AGGREGATES, key="k").collect())
    found = totals(first + second)
    # What has not closed by the last watermark is missing, and nothing else.
    closed = START + timedelta(seconds=299 - 60 - 10)
    assert found == {
        (key, start): total
        for (key, start), total in wanted.items()
        if start.astimezone(UTC) <= closed
    }
    assert len(first) > 0
    assert len(second) > 0


OTHERS: dict[str, dict[str, Any]] = {
    "another column": {"aggregates": [agg.sum("b").alias("total"), agg.count()]},
    "another function of it": {"aggregates": [agg.max("a").alias("total"), agg.count()]},
    "a shorter window": {"size": 5},
    "another offset": {"offset": 5},
    "another time": {"time": "other"},
}


def test_another_query_does_not_start_from_its_checkpoint(rows: DataFrame, tmp_path: Path) -> None:
    expected, _ = run(streaming(rows, AGGREGATES), tmp_path / "alone")
    answers, _ = run(streaming(rows, AGGREGATES), tmp_path / "checkpoint")
    write_batches(tmp_path / "in", SCHEMA, [batch(120, 300)])
    more, _ = run(streaming(rows, AGGREGATES), tmp_path / "alone")
    for name, change in OTHERS.items():
        with pytest.raises(StreamingQueryException) as raised:
            run(streaming(rows, **({"aggregates": AGGREGATES} | change)), tmp_path / "checkpoint")
        assert "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE" in str(raised.value), name
        assert "Start the query with a new checkpointLocation" in str(raised.value), name
    # All these have changed nothing.
    again, _ = run(streaming(rows, AGGREGATES), tmp_path / "checkpoint")
    assert totals(answers + again) == totals(expected + more)


def test_a_session_without_sparks_check_is_refused(rows: DataFrame) -> None:
    conf = rows.sparkSession.conf
    conf.set(CHECK, "false")
    try:
        with pytest.raises(
            InvalidArgumentError, match=r"stateSchemaCheck = false.* set it to true"
        ):
            streaming(rows, AGGREGATES)
    finally:
        conf.unset(CHECK)


def test_the_seal_is_not_seen(rows: DataFrame) -> None:
    answers = streaming(rows, AGGREGATES)
    assert answers.columns == ["k", "window", "total", "count(1)"]
    # Spark's mark of the watermark, so that what follows can use it.
    assert answers.schema["window"].metadata["spark.watermarkDelayMs"] == 60_000
