"""The windows that `holdfast.window` answers, against Spark's own over the rows that were taken."""

import math
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType, TimestampType, _parse_datatype_string

import holdfast
from holdfast import aggregates as agg
from holdfast.spark.keys import Keys
from holdfast.spark.measures import measure_of
from holdfast.spark.plan import Plan
from holdfast.windows.shard import Span
from tests.spark.cases import Driven, Windows, moment, some_batches, some_windows

AGGREGATES = [
    agg.count().alias("n"),
    agg.count("part").alias("valid"),
    agg.sum("whole").alias("total"),
    agg.sum("part").alias("float_total"),
    agg.mean("part").alias("average"),
    agg.min("part").alias("least"),
    agg.max("whole").alias("most"),
    agg.range("part").alias("spread"),
    agg.variance("part").alias("variance"),
    agg.stddev_population("part").alias("deviation"),
]
KEYS: list[tuple[str, list[Any]]] = [
    ("string", ["a", "b", "", "ü", None]),
    ("bigint", [0, 1, -5, 2**62, None]),
    ("double", [0.0, -0.0, 1.5, math.nan, None]),
    ("boolean", [True, False, None]),
    ("decimal(10,2)", [Decimal("1.10"), Decimal("-3.00"), None]),
    ("struct<a: int, b: string>", [{"a": 1, "b": "x"}, {"a": None, "b": "x"}, None]),
    ("array<int>", [[1, 2], [], [None], None]),
]
CASES_EACH = 25


def sparks() -> list[Column]:
    """The same by Spark."""
    return [
        F.count("*").alias("n"),
        F.count("part").alias("valid"),
        F.sum("whole").alias("total"),
        F.sum("part").alias("float_total"),
        F.avg("part").alias("average"),
        F.min("part").alias("least"),
        F.max("whole").alias("most"),
        (F.max("part") - F.min("part")).alias("spread"),
        F.var_samp("part").alias("variance"),
        F.stddev_pop("part").alias("deviation"),
    ]


def schema_with(key: str) -> StructType:
    return _parse_datatype_string(f"id bigint, key {key}, ts timestamp, whole bigint, part double")


def plan_for(schema: StructType, windows: Windows, late: str | None, **options: Any) -> Plan:
    settings = {"names": None, "early": False, "linger": None, **options}
    return Plan(
        keys=Keys.of(schema, "key"),
        time_type=TimestampType(),
        spans=(Span(windows.size, windows.slide, windows.offset + windows.size),),
        measures=tuple(measure_of(aggregate, schema) for aggregate in AGGREGATES),
        shards=2,
        late=late,
        **settings,
    )


def spark_windows(rows: DataFrame, windows: Windows, *more: str) -> DataFrame:
    spans = [f"{span} microseconds" for span in (windows.size, windows.slide, windows.offset)]
    return rows.groupBy(*more, "key", F.window("ts", *spans)).agg(*sparks())


def canonical(row: dict[str, Any]) -> tuple:
    """A result row as something that can be compared: floats to twelve digits, -0.0 as 0.0."""
    window = row["window"]
    answers = [row[aggregate.name] for aggregate in AGGREGATES]
    return (
        plain(row["key"]),
        window["start"].timestamp(),
        window["end"].timestamp(),
        *map(plain, answers),
    )


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(f"{value:.12g}") + 0.0
    if isinstance(value, dict):
        return tuple(plain(each) for each in value.values())
    if isinstance(value, list):
        return ("list", *map(plain, value))
    return value


def late_ids(folder: Path) -> list[int]:
    if not folder.exists():
        return []
    return pq.read_table(folder)["id"].to_pylist()


@pytest.mark.parametrize(
    ("group", "key"), list(enumerate([*KEYS, *KEYS])), ids=lambda value: str(value)[:20]
)
def test_answers_equal_those_of_spark_over_the_rows_that_were_taken(
    spark: SparkSession, tmp_path: Path, group: int, key: tuple[str, list[Any]]
) -> None:
    """25 seeded cases for each of 14 windows and key types, all through the operator itself."""
    rng = random.Random(group)
    windows, schema = some_windows(rng), schema_with(key[0])
    answers: list[tuple] = []
    taken, watermarks = [], {}
    for number in range(CASES_EACH):
        batches = some_batches(rng, windows, key[1])
        folder = tmp_path / str(number)
        driven = Driven(plan_for(schema, windows, str(folder)), schema, windows.delay)
        arrived = {}
        for batch in batches:
            arrived |= {row["id"]: (row, driven.watermark) for row in batch}
            answers += [(number, *canonical(row)) for row in driven.feed(batch)]
        refused = Counter(late_ids(folder))
        assert set(refused.values()) <= {1}
        assert sum(row.late for row in driven.counts) == len(refused)
        assert sum(row.rows for row in driven.counts) == len(arrived) - len(refused)
        for late in refused:
            row, watermark = arrived[late]
            assert windows.pane_end(row["ts"]) <= watermark * 1000
        taken += [
            {"case": number, **row, "ts": moment(row["ts"])}
            for row, _ in arrived.values()
            if row["id"] not in refused
        ]
        watermarks[number] = driven.watermark / 1000
    rows = spark.createDataFrame(
        [[row[name] for name in ("case", *schema.names)] for row in taken],
        StructType([StructField("case", _parse_datatype_string("int")), *schema.fields]),
    )
    expected = [
        (row["case"], *canonical(row))
        for row in (
            each.asDict(recursive=True) for each in spark_windows(rows, windows, "case").collect()
        )
        if row["window"]["end"].timestamp() <= watermarks[row["case"]]
    ]
    assert Counter(answers) == Counter(expected)


@pytest.mark.parametrize("group", range(6))
def test_a_static_frame_gives_the_rows_that_spark_gives(spark: SparkSession, group: int) -> None:
    rng = random.Random(1000 + group)
    kind, keys = KEYS[group]
    windows, schema = some_windows(rng), schema_with(kind)
    rows = [row for _ in range(5) for batch in some_batches(rng, windows, keys) for row in batch]
    frame = spark.createDataFrame(
        [[{**row, "ts": moment(row["ts"])}[name] for name in schema.names] for row in rows], schema
    )
    ours = holdfast.window(
        frame,
        key="key",
        time="ts",
        size=f"{windows.size} microseconds",
        slide=f"{windows.slide}us",
        offset=f"{windows.offset} microseconds",
        aggs=AGGREGATES,
    )
    theirs = spark_windows(frame, windows)
    assert ours.columns == theirs.columns
    assert [f.dataType for f in ours.schema] == [f.dataType for f in theirs.schema]
    both = [
        Counter(canonical(row.asDict(recursive=True)) for row in each.collect())
        for each in (ours, theirs)
    ]
    assert both[0] == both[1]
