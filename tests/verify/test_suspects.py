"""What in a plan may differ between replicas is found; what does not is left alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from holdfast.verify.determinism import job_time, ordered, seeded_random, stable_sum
from holdfast.verify.suspects import suspects

Make = Callable[[DataFrame], DataFrame]

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
    ("percentile_approx", lambda df: df.agg(F.percentile_approx("id", 0.5))),
    ("limit without order", lambda df: df.limit(3)),
    ("limit without order", lambda df: df.orderBy("id").groupBy("k").count().limit(3)),
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
