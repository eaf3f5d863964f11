"""What in a plan may differ between replicas is found; what does not is left alone."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812

from holdfast.verify.process.determinism import (
    job_time,
    ordered,
    seeded_random,
    stable_sum,
    total_order,
)
from holdfast.verify.process.plan_lint import suspects

Make = Callable[[DataFrame], DataFrame]

EVERY = sys.maxsize


def by_k() -> WindowSpec:
    return Window.orderBy("k")


def over(df: DataFrame, function: Column, *, total: bool = False) -> DataFrame:
    window = Window.orderBy(*total_order(df, "k")) if total else by_k()
    return df.select("*", function.over(window))


SUSPECT: list[tuple[str, Make]] = [
    ("rand", lambda df: df.select(F.rand())),
    ("rand", lambda df: df.where(F.rand(seed=3) < 0.5)),
    ("uuid", lambda df: df.select(F.expr("uuid()"))),
    ("shuffle", lambda df: df.select(F.shuffle(F.array("id", "k")))),
    ("current_timestamp", lambda df: df.select(F.current_timestamp())),
    ("current_date", lambda df: df.select(F.current_date())),
    ("now", lambda df: df.select(F.now())),
    ("monotonically_increasing_id", lambda df: df.select(F.monotonically_increasing_id())),
    ("spark_partition_id", lambda df: df.select(F.spark_partition_id())),
    ("input_file_name", lambda df: df.select(F.input_file_name())),
    ("first", lambda df: df.groupBy("k").agg(F.first("id"))),
    ("last", lambda df: df.groupBy("k").agg(F.last("id"))),
    ("any_value", lambda df: df.groupBy("k").agg(F.any_value("id"))),
    ("collect_list", lambda df: df.groupBy("k").agg(F.collect_list("id"))),
    (
        "collect_set",
        lambda df: df.groupBy("k").agg(F.collect_set("id")),
    ),
    ("sum of floating-point numbers", lambda df: df.groupBy("k").agg(F.sum("x"))),
    ("avg of floating-point numbers", lambda df: df.agg(F.avg(F.col("x").cast("float")))),
    ("stddev of floating-point numbers", lambda df: df.agg(F.stddev("x"))),
    ("hll_sketch_agg", lambda df: df.agg(F.hll_sketch_agg("id"))),
    ("kll_sketch_agg_bigint", lambda df: df.selectExpr("kll_sketch_agg_bigint(id)")),
    ("tuple_sketch_agg_double", lambda df: df.selectExpr("tuple_sketch_agg_double(id, x)")),
    ("histogram_numeric", lambda df: df.agg(F.histogram_numeric("x", F.lit(5)))),
    ("percentile_approx", lambda df: df.agg(F.percentile_approx("id", 0.5))),
    ("limit without order", lambda df: df.limit(3)),
    ("limit without order", lambda df: df.orderBy("id").groupBy("k").count().limit(3)),
    ("limit by an order that may leave ties", lambda df: df.orderBy("k").limit(3)),
    ("row_number by an order that may leave ties", lambda df: over(df, F.row_number())),
    ("ntile by an order that may leave ties", lambda df: over(df, F.ntile(2))),
    ("lag by an order that may leave ties", lambda df: over(df, F.lag("id"))),
    ("first", lambda df: over(df, F.first("id"))),
    ("sum of floating-point numbers", lambda df: over(df, F.sum("x"))),
    (
        "sum by an order that may leave ties",
        lambda df: df.select("*", F.sum("id").over(by_k().rowsBetween(-1, 0))),
    ),
    ("current_time", lambda df: df.selectExpr("current_time()")),
    ("localtimestamp", lambda df: df.select(F.localtimestamp())),
    ("current_user", lambda df: df.select(F.current_user())),
    ("version", lambda df: df.select(F.version())),
    ("sample", lambda df: df.sample(0.5, seed=3)),
    ("dropDuplicates by some of the columns", lambda df: df.dropDuplicates(["k"])),
]

CLEAN: list[Make] = [
    lambda df: df,
    lambda df: df.groupBy("k").agg(F.sum("id"), F.max("x"), F.count("*"), F.avg("id")),
    lambda df: df.groupBy("k").agg(F.sum(F.col("x").cast("decimal(20, 3)"))),
    lambda df: df.groupBy("k").agg(stable_sum("x"), stable_sum("x", digits=3)),
    lambda df: df.groupBy("k").agg(F.array_sort(F.collect_list("id"))),
    lambda df: df.groupBy("k").agg(F.sort_array(F.collect_set("id"))),
    lambda df: df.groupBy("k").agg(F.max_by("x", "id")),
    lambda df: ordered(df, "k").limit(3),
    lambda df: ordered(df, "k").select("id").limit(3),
    lambda df: df.dropDuplicates(),
    lambda df: df.selectExpr("approx_count_distinct(id)", "theta_sketch_agg(id)"),
    lambda df: over(df, F.row_number(), total=True),
    lambda df: over(df, F.lag("id"), total=True),
    lambda df: over(df, F.first("id"), total=True),
    lambda df: over(df, F.sum("x"), total=True),
    lambda df: over(df, F.rank()),
    lambda df: over(df, F.dense_rank()),
    lambda df: over(df, F.sum("id")),
    lambda df: df.select("*", F.sum("id").over(by_k().rowsBetween(-EVERY, EVERY))),
    # Rows that tie are equal in all that is left of them.
    lambda df: df.select(F.row_number().over(by_k())),
    lambda df: df.select(seeded_random(3, "id"), job_time()),
    lambda df: df.join(df.groupBy("k").count(), "k"),
]


@pytest.fixture
def df(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT id, id % 3 AS k, id / 3D AS x FROM range(10)")


@pytest.mark.parametrize(
    ("what", "make"), SUSPECT, ids=lambda each: each if isinstance(each, str) else ""
)
def test_what_depends_on_chance_is_found(df: DataFrame, what: str, make: Make) -> None:
    found = suspects(make(df))
    assert what in [each.what for each in found]
    assert all(str(each) == f"{each.what}: {each.remedy}" for each in found)


@pytest.mark.parametrize("make", CLEAN)
def test_what_does_not_is_not(df: DataFrame, make: Make) -> None:
    assert suspects(make(df)) == []


def test_each_is_named_once_with_a_remedy(df: DataFrame) -> None:
    found = suspects(df.select(F.rand(), F.rand()).where(F.rand() < 1))
    assert [each.what for each in found] == ["rand"]
    assert "seeded_random" in found[0].remedy


def test_a_window_is_no_clock(df: DataFrame) -> None:
    """The bound of its frame is called CurrentRow."""
    found = suspects(over(df, F.row_number()))
    assert [each.what for each in found] == ["row_number by an order that may leave ties"]
    assert "total_order" in found[0].remedy


def test_sketches_that_are_not_named_come_out_the_same(spark: SparkSession) -> None:
    rows = spark.sql("SELECT id * 7919 % 30011 AS id FROM range(60000)")
    made = F.approx_count_distinct("id"), F.expr("theta_sketch_agg(id)")
    found = [rows.repartition(parts).agg(*made).head() for parts in (1, 3)]
    assert found[0] == found[1]
