"""Columns that do not depend on chance: in any order, in any partitions, to the last bit."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from holdfast.errors import InvalidArgumentError
from holdfast.verify.process import determinism
from holdfast.verify.process.determinism import (
    JOB_TIME,
    job_time,
    ordered,
    seeded_random,
    stable_average,
    stable_sum,
    total_order,
)

NUMBERS = [1e16, 1.0, -1e16, 0.1, 1e-9, 3.0, -7.7, 1e5] * 40


def in_other_ways(spark: SparkSession, numbers: list[float]) -> list[DataFrame]:
    """The same rows in several orders and partitions."""
    rng = random.Random(3)
    frames = []
    for partitions in (1, 2, 5):
        rows = [(number, "k") for number in rng.sample(numbers, len(numbers))]
        frames.append(spark.createDataFrame(rows, "x double, key string").repartition(partitions))
    return frames


def values(frames: list[DataFrame], column: Column) -> set[float]:
    return {frame.groupBy("key").agg(column.alias("y")).first()["y"] for frame in frames}


def test_sparks_own_sum_differs(spark: SparkSession) -> None:
    """What the others are for."""
    assert len(values(in_other_ways(spark, NUMBERS), F.sum("x"))) > 1


@pytest.mark.parametrize("make", [stable_sum, stable_average])
@pytest.mark.parametrize("digits", [None, 6])
def test_stable_ones_do_not(
    spark: SparkSession, make: Callable[..., Column], digits: int | None
) -> None:
    assert len(values(in_other_ways(spark, NUMBERS), make("x", digits=digits))) == 1


def test_sums_are_right(spark: SparkSession) -> None:
    frames = in_other_ways(spark, [0.1, 0.2, 0.7, 5.0])
    assert values(frames, stable_sum("x", digits=1)) == {6.0}
    assert values(frames, stable_sum("x")) == {sum([0.1, 0.2, 0.7, 5.0])}
    assert values(frames, stable_average(F.col("x"))) == {1.5}


def test_sums_are_of_what_is_there(spark: SparkSession) -> None:
    df = spark.sql("SELECT * FROM VALUES (1D), (NULL), (2D) AS t(x)")
    assert df.agg(stable_sum("x")).first()[0] == 3.0
    assert df.agg(stable_average("x")).first()[0] == 1.5
    assert df.where("x IS NULL").agg(stable_sum("x")).first()[0] is None
    assert df.where("x IS NULL").agg(stable_sum("x", digits=2)).first()[0] is None
    assert math.isnan(df.union(spark.sql("SELECT double('nan')")).agg(stable_sum("x")).first()[0])


@pytest.mark.parametrize("digits", [-1, 20])
def test_digits_have_bounds(digits: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"digits is {digits}"):
        stable_sum("x", digits=digits)


def test_an_order_leaves_no_ties(spark: SparkSession) -> None:
    rows = [(n % 3, n % 5, n) for n in range(60)]
    answers = set()
    for partitions in (1, 3, 7):
        df = spark.createDataFrame(rows, "a int, b int, c int").repartition(partitions)
        order = Window.partitionBy("a").orderBy(*total_order(df, F.desc("b")))
        numbered = df.withColumn("n", F.row_number().over(order)).where("n = 2")
        answers.add(
            (
                tuple(ordered(df, "a").limit(7).collect()),
                tuple(sorted(numbered.collect())),
            )
        )
    assert len(answers) == 1
    assert answers.pop()[0][0] == (0, 0, 0)


def test_random_numbers_come_from_keys(spark: SparkSession) -> None:
    df = spark.range(4000)
    drawn = df.select("id", seeded_random(7, "id").alias("r"))
    first = {row["id"]: row["r"] for row in drawn.collect()}
    again = df.repartition(5).select("id", seeded_random(7, F.col("id")).alias("r"))
    assert {row["id"]: row["r"] for row in again.collect()} == first
    other = df.select(seeded_random(8, "id").alias("r")).collect()
    assert [row["r"] for row in other] != list(first.values())
    assert 0 <= min(first.values()) < 0.01
    assert 0.99 < max(first.values()) < 1
    assert abs(sum(first.values()) / len(first) - 0.5) < 0.02
    with pytest.raises(InvalidArgumentError, match="keys is empty"):
        seeded_random(7)


def test_the_time_of_a_job_is_that_of_its_submission(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(JOB_TIME, "1794000000123456")
    shown = spark.range(1).select(job_time().cast("string")).first()[0]
    assert shown == "2026-11-06 21:20:00.123456"


def test_without_a_replica_it_is_when_it_was_first_asked_for(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(JOB_TIME, raising=False)
    determinism._asked_first.cache_clear()
    before = datetime.now(UTC).timestamp()
    times = [spark.range(1).select(job_time().cast("double")).first()[0] for _ in range(2)]
    assert times[0] == times[1]
    assert before - 1e-5 <= times[0] <= datetime.now(UTC).timestamp()
