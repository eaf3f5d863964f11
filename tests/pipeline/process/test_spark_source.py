"""`spark.readStream.format("holdfast")`: final rows, each once, over restarts of the query."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from harness.ports import free_port
from holdfast.errors import InvalidArgumentError, RefusedError
from holdfast.pipeline.process import spark_source as stream_source
from holdfast.pipeline.process.spark_source import HoldfastReader, HoldfastSource
from holdfast.pipeline.topology import Push, Topology
from tests.pipeline.sources.processes import save
from tests.pipeline.sources.publisher import Publisher
from tests.pipeline.sources.rig import alone, party_of, wait_for

TIMED = Push(schema={"at": "timestamp", "n": "bigint", "tags": "array<string>"})


def rows(start: int, stop: int) -> pa.Table:
    """One row for each millisecond."""
    times = pa.array([1000 * n for n in range(start, stop)], pa.int64())
    return pa.table(
        {
            "at": times.cast(pa.timestamp("us", "UTC")),
            "n": range(start, stop),
            "tags": [[str(n)] for n in range(start, stop)],
        }
    )


def test_a_stream_is_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    topology = alone(tmp_path, TIMED, time="at", bucket="10ms")
    path = save(topology)
    spark.dataSource.register(HoldfastSource)
    batches: dict[int, list[int]] = {}

    def collect(batch: DataFrame, number: int) -> None:
        # One that was stopped before its end comes again.
        batches[number] = [row.n for row in batch.collect()]

    def seen() -> list[int]:
        return sorted(n for some in list(batches.values()) for n in some)

    def start() -> Any:
        stream = (
            spark.readStream.format("holdfast")
            .options(topology=str(path), stream="readings", start="oldest")
            .load()
        )
        assert stream.schema.simpleString() == (
            "struct<stime:timestamp,at:timestamp,n:bigint,tags:array<string>>"
        )
        return (
            stream.writeStream.foreachBatch(collect)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )

    with party_of(topology) as party:
        for life in range(2):
            query = start()
            try:
                first = 4000 * life
                party.take(rows(first, first + 4000))
                # The last bucket waits for later rows.
                wait_for(lambda: len(seen()) >= first + 3990 or not query.isActive, 60)  # noqa: B023
                assert query.exception() is None
            finally:
                query.stop()
    assert seen() == list(range(7990))


def reader_of(topology: Topology) -> HoldfastReader:
    source = HoldfastSource({"topology": str(save(topology)), "stream": "readings"})
    return source.streamReader(source.schema())  # type: ignore[no-any-return]


def test_rows_come_from_whoever_has_them(tmp_path: Path) -> None:
    topology = alone(tmp_path)
    reader = reader_of(topology)
    address = topology.streams["readings"].address
    other = f"127.0.0.1:{free_port()}"
    gone = f"127.0.0.1:{free_port()}"
    reader.addresses = {"gone": gone, "a": address, "b": other}
    with Publisher(address, start=20) as late, Publisher(other, ["keeper"]) as whole:
        for publisher, first in ((late, 20), (whole, 0)):
            for start in range(first, 40, 10):
                publisher.publish(start, start + 10, [start])
        assert reader.initialOffset() == {"boundary": 40}
        reader.start = "oldest"
        assert reader.initialOffset() == {"boundary": 0}
        assert reader.latestOffset({"boundary": 10}, None) == {"boundary": 40}
        [partition] = reader.partitions({"boundary": 10}, {"boundary": 40})
        found = pa.Table.from_batches(reader.read(partition))
        assert found["value"].to_pylist() == [10, 20, 30]
        [partition] = reader.partitions({"boundary": 40}, {"boundary": 50})
        with pytest.raises(RefusedError, match="nobody has readings from 40 to 50"):
            list(reader.read(partition))
    # Nobody answers: there is nothing new.
    assert reader.latestOffset({"boundary": 40}, None) == {"boundary": 40}


@pytest.mark.parametrize(("first", "last"), [(0, 1), (5, 25), (0, 1_800_000_000), (7, 807)])
def test_partitions_are_not_too_large_and_not_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, last: int
) -> None:
    monkeypatch.setattr(stream_source, "BUCKETS", 2)
    reader = reader_of(alone(tmp_path, bucket="1s"))
    reader.size = 10
    parts = [each.value for each in reader.partitions({"boundary": first}, {"boundary": last})]
    assert parts[0][0] == first
    assert parts[-1][1] == last
    assert all(one[1] == other[0] for one, other in pairwise(parts))
    assert all(end > start for start, end in parts)
    assert len(parts) <= 256
    assert all(end - start <= 20 for start, end in parts[1:])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "topology and stream: missing"),
        ({"stream": "readings"}, "topology: missing"),
        ({"stream": "reading"}, "there is no 'reading'"),
        ({"stream": "readings", "start": "now"}, "give 'newest' or 'oldest'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, options: dict[str, str], message: str) -> None:
    if message.startswith(("there", "give")):
        options = options | {"topology": str(save(alone(tmp_path)))}
    source = HoldfastSource(options)
    with pytest.raises(InvalidArgumentError, match=message):
        source.streamReader(source.schema())
