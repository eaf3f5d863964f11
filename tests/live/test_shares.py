"""A stage on Spark whose replicas share its work, one of them killed in the middle.

`make soak PART=shared-stages` does it with a window behind it, again and again.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from harness.deployment import Deployment
from harness.shares import lose_a_share
from harness.streams import Row
from holdfast.pipeline.process.spark_source import HoldfastReader

SCHEMA = StructType(
    [
        StructField("stime", TimestampType()),
        StructField("sensor", StringType()),
        StructField("value", LongType()),
    ]
)


def rows_for_spark(deployment: Deployment) -> tuple[int, int, list[Row]]:
    """What a query of Spark gets that reads the stream from where to where it is kept."""
    reader = HoldfastReader(deployment.topology, "clean", SCHEMA, "oldest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    rows = [
        (round(row["stime"].timestamp() * 1e6), row["sensor"], row["value"])
        for batch in batches
        for row in batch.to_pylist()
    ]
    return start["boundary"], end["boundary"], rows


@pytest.mark.timeout(300)
def test_a_share_that_is_lost_is_taken_over_and_every_row_counts_once(tmp_path: Path) -> None:
    with Deployment(
        tmp_path, bucket="500ms", sources=("a",), window=False, shared=True
    ) as deployment:
        deployment.wait_until_ready()
        print(lose_a_share(deployment, "clean/1"))
        start, end, rows = rows_for_spark(deployment)
        right = [row for row in deployment.right_rows("clean", end) if row[0] >= start]
        assert sorted(rows) == sorted(right)
        assert rows
