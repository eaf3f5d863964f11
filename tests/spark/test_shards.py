"""Shards: Spark's own hash and its own partitions are the oracle."""

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from holdfast.errors import InvalidArgumentError
from holdfast.spark.partials import shard_column, shard_labels, spark_hash

EDGES = [0, 1, -1, 42, 2**31 - 1, -(2**31)]


def test_the_hash_is_sparks(spark: SparkSession) -> None:
    some = np.random.default_rng(3).integers(-(2**31), 2**31, 2000).tolist() + EDGES
    rows = spark.createDataFrame([(value,) for value in some], "value int")
    answers = rows.select("value", F.hash("value").alias("hash")).collect()
    assert len(answers) == len(some)
    hashed = spark_hash(np.array([row["value"] for row in answers]))
    assert hashed.tolist() == [row["hash"] for row in answers]


@pytest.mark.parametrize("shards", [1, 2, 3, 8, 200, 10_000])
def test_labels_are_the_least_that_go_to_their_partitions(shards: int) -> None:
    labels = shard_labels(shards)
    partitions = spark_hash(np.arange(max(labels) + 1)).astype(np.int64) % shards
    firsts: dict[int, int] = {}
    for label, partition in enumerate(partitions.tolist()):
        firsts.setdefault(partition, label)
    assert labels == [firsts[partition] for partition in range(shards)]


@pytest.mark.parametrize("shards", [1, 7, 20])
def test_each_partition_has_exactly_one_shard(spark: SparkSession, shards: int) -> None:
    labels = shard_labels(shards)
    keys = spark.range(1000).select(F.col("id").cast("string").alias("key"))
    labelled = keys.select(shard_column([F.col("key")], labels).alias("shard"))
    places = (
        labelled.repartition(shards, "shard")
        .select("shard", F.spark_partition_id().alias("partition"))
        .distinct()
        .collect()
    )
    found = sorted((row["partition"], row["shard"]) for row in places)
    assert found == list(enumerate(labels))


def test_equal_keys_are_of_one_shard(spark: SparkSession) -> None:
    other_nan = np.array([0xFFF8_0000_0000_0001], np.uint64).view(np.float64)[0]
    equal = spark.createDataFrame(
        [(0.0, float("nan")), (-0.0, float(other_nan))], "zero double, nan double"
    )
    kinds = [
        F.col("zero"),
        F.col("nan").cast("float"),
        F.struct("zero", F.array(F.struct("nan"))),
        F.array("nan", "zero", F.lit(None)),
    ]
    labels = shard_labels(10_000)
    shards = equal.select(*(shard_column([kind], labels) for kind in kinds)).distinct()
    assert shards.count() == 1


def test_all_keys_together_settle_the_shard(spark: SparkSession) -> None:
    rows = spark.range(100).select(F.lit("same").alias("a"), F.col("id").alias("b"))
    labels = shard_labels(5)
    shard = shard_column([F.col("a"), F.col("b")], labels).alias("shard")
    found = rows.select(shard).distinct().collect()
    assert sorted(row["shard"] for row in found) == sorted(labels)


def test_null_keys_and_no_keys_have_a_shard(spark: SparkSession) -> None:
    labels = shard_labels(5)
    nothing = F.lit(None).cast("string")
    row = spark.range(1).select(shard_column([nothing], labels), shard_column([], labels)).first()
    assert row is not None
    assert row[0] in labels
    assert row[1] == labels[0]


@pytest.mark.parametrize("shards", [0, -1, True, 2.0, "8"])
def test_bad_numbers_of_shards(shards: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"shards is .* at least 1"):
        shard_labels(shards)  # type: ignore[arg-type]
