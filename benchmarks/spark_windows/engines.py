"""Queries on Spark, Holdfast's and Spark's own, run over files as fast as they go.

All of them have the same session, source, aggregates and sink (`noop`), and take what there is in
batches (`availableNow`), so that the rate of a batch is its rows over its time.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import holdfast
from benchmarks.spark_windows.data import FILES, WATERMARK
from benchmarks.spark_windows.runs import Batch, Run
from holdfast import aggregates as agg
from holdfast.spark.sessions import local_session

__all__ = [
    "DEFAULT",
    "HOLDFAST",
    "NATIVE",
    "ROCKSDB",
    "Engine",
    "Source",
    "Window",
    "embedded_spark",
    "run",
    "show_seconds",
]

PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
PROVIDERS: Final = "org.apache.spark.sql.execution.streaming.state"
HEAP: Final = "8g"
"""For all engines: Spark's default store holds the state in it."""


@dataclass(frozen=True)
class Window:
    """Size and slide, in seconds."""

    size: int
    slide: int

    @property
    def ratio(self) -> int:
        return self.size // self.slide

    def __str__(self) -> str:
        return f"{show_seconds(self.size)} / {show_seconds(self.slide)}"


def show_seconds(seconds: int) -> str:
    for length, unit in ((3600, "h"), (60, "min")):
        if seconds % length == 0:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


@dataclass(frozen=True)
class Source:
    """Folders of files that are read one after the other, two files a batch."""

    folders: tuple[Path, ...]
    rows_in_batch: int
    skip: int
    """How many batches fill the window and warm up."""

    def read(self, spark: SparkSession) -> DataFrame:
        rows = spark.readStream.option("maxFilesPerTrigger", FILES)
        # Brackets hold alternatives: readStream takes one path.
        path = f"{self.folders[0].parent}/{{{','.join(each.name for each in self.folders)}}}"
        if self.folders[0].suffix == ".parquet":
            events = rows.schema("key string, ts timestamp, value double").parquet(path)
        else:
            text = rows.schema("key string, ts long, value double").csv(path)
            events = text.withColumn("ts", F.timestamp_millis("ts"))
        return events.withWatermark("ts", f"{WATERMARK} seconds")


def native_query(rows: DataFrame, windows: Sequence[Window]) -> DataFrame:
    (only,) = windows
    span = F.window("ts", f"{only.size} seconds", f"{only.slide} seconds")
    value = F.col("value")
    return rows.groupBy("key", span).agg(
        F.count(F.lit(1)), F.sum(value), F.min(value), F.max(value)
    )


def holdfast_query(rows: DataFrame, windows: Sequence[Window]) -> DataFrame:
    aggregates = [agg.count(), agg.sum("value"), agg.min("value"), agg.max("value")]
    if len(windows) > 1:
        several = [holdfast.sliding(f"{each.size}s", f"{each.slide}s") for each in windows]
        return holdfast.window(rows, key="key", time="ts", windows=several, aggs=aggregates)
    (only,) = windows
    size, slide = f"{only.size}s", f"{only.slide}s"
    return holdfast.window(rows, key="key", time="ts", size=size, slide=slide, aggs=aggregates)


@dataclass(frozen=True)
class Engine:
    name: str
    query: Callable[[DataFrame, Sequence[Window]], DataFrame]
    provider: str


HOLDFAST: Final = Engine("Holdfast", holdfast_query, "RocksDBStateStoreProvider")
ROCKSDB: Final = Engine("Spark RocksDB", native_query, "RocksDBStateStoreProvider")
DEFAULT: Final = Engine("Spark default", native_query, "HDFSBackedStateStoreProvider")
NATIVE: Final = (DEFAULT, ROCKSDB)


@contextmanager
def embedded_spark() -> Iterator[SparkSession]:
    """The session all engines share."""
    # Read when the JVM starts, which no setting of a session can do.
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {HEAP} pyspark-shell"
    spark = local_session("spark-windows")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100_000)
    # What is cut off fails loudly while it is being planned; that is no news.
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def run(
    spark: SparkSession,
    engine: Engine,
    source: Source,
    windows: Sequence[Window],
    limit: int,
) -> Run:
    """Run a query until its files or the seconds of `limit` are used up."""
    spark.conf.set(PROVIDER, f"{PROVIDERS}.{engine.provider}")
    checkpoint = tempfile.mkdtemp(prefix="spark-windows-")
    try:
        writer = engine.query(source.read(spark), windows).writeStream.format("noop")
        begun = time.monotonic()
        query = (
            writer.outputMode("append")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        ended = query.awaitTermination(limit)
        elapsed = time.monotonic() - begun
        query.stop()
        # The last batch only lets the watermark close what is open.
        progress = [each for each in query.recentProgress if each.numInputRows]
        return Run.of(
            [Batch(each.numInputRows, each.batchDuration / 1000) for each in progress],
            skip=source.skip,
            elapsed=elapsed,
            cut_off=not ended,
            rows_in_batch=source.rows_in_batch,
            state=_state(spark, checkpoint, progress),
        )
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)


def _state(
    spark: SparkSession, checkpoint: str, progress: Sequence[Any]
) -> tuple[int | None, int | None]:
    """Rows and bytes of the state after the last batch that had rows."""
    if not progress:
        return None, None
    first, last = progress[0].stateOperators[0], progress[-1].stateOperators[0]
    if last.operatorName.startswith("transformWithState"):
        return last.numRowsTotal, _bytes_in_maps(spark, checkpoint, progress[-1].batchId)
    heap = last.customMetrics.get("stateOnCurrentVersionSizeBytes")
    if heap is not None:
        return last.numRowsTotal, heap
    # The first batch deletes nothing, and all rows are equally long.
    length = first.customMetrics["rocksdbTotalBytesWritten"] / first.numRowsUpdated
    return last.numRowsTotal, round(length * last.numRowsTotal)


def _bytes_in_maps(spark: SparkSession, checkpoint: str, batch: int) -> int:
    """The lengths of all records in map state, as Spark's state reader finds them."""
    operator = spark.read.format("state-metadata").load(checkpoint).first()
    assert operator is not None
    total = 0
    variables = json.loads(operator.operatorProperties)["stateVariables"]
    for variable in (each for each in variables if each["stateVariableType"] == "MapState"):
        reader = spark.read.format("statestore").option("stateVarName", variable["stateName"])
        records = reader.option("batchId", batch).load(checkpoint).select("user_map_value.*")
        (found,) = records.agg(F.sum(F.length(records[0]))).collect()
        total += found[0] or 0
    return total
