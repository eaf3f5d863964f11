"""A fleet of simulated sensors whose windows are computed by shard windows inside Spark tasks."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console
from rich.status import Status

from holdfast.demo.task import SCHEMA, SIZE, SLIDE, windows_of_shard
from holdfast.spark.sessions import local_session

__all__ = ["Fleet", "run_fleet"]

EVERY, SHARDS = 2, 4


@dataclass(frozen=True)
class Fleet:
    """What the run gave, and how it compares with Spark's own windows."""

    rows: int
    windows: int
    spark_windows: int
    different: int
    hottest: list[tuple[int, float, int]]
    readings: pd.DataFrame
    """The readings of a few sensors, for the picture."""
    answers: pd.DataFrame
    """Their windows."""


def run_fleet(console: Console, sensors: int, seconds: int) -> Fleet:
    """Compute the windows twice, by Holdfast and by Spark, and compare every row."""
    with console.status("starting Spark") as status, interruptible_session() as spark:
        status.update(f"simulating {sensors:,} sensors")
        readings = simulate(spark, sensors, seconds).cache()
        rows = readings.count()
        ours = timed(status, "Holdfast's windows", windows(readings).cache())
        theirs = timed(status, "Spark's window()", spark_windows(readings).cache())
        status.update("comparing the two")
        keys = ["sensor", "start"]
        both = ours.alias("ours").join(theirs.alias("theirs"), keys, "full_outer")
        same = (
            (F.col("ours.n") == F.col("theirs.n"))
            & (F.col("ours.hottest") == F.col("theirs.hottest"))
            & (F.abs(F.col("ours.mean") - F.col("theirs.mean")) < 1e-9)
        )
        different = both.where(~F.coalesce(same, F.lit(False))).count()
        best = ours.where(F.col("n") == SIZE // EVERY).groupBy("sensor")
        hottest = best.agg(F.max(F.struct("mean", "end")).alias("best")).orderBy(F.desc("best"))
        shown = [int(row.sensor) for row in hottest.limit(3).collect()]
        return Fleet(
            rows=rows,
            windows=ours.count(),
            spark_windows=theirs.count(),
            different=different,
            hottest=[(r.sensor, r.best.mean, r.best.end) for r in hottest.limit(5).collect()],
            readings=readings.where(F.col("sensor").isin(shown)).toPandas(),
            answers=ours.where(F.col("sensor").isin(shown)).toPandas(),
        )


@contextmanager
def interruptible_session() -> Iterator[SparkSession]:
    """A session in which Ctrl-C prints no tracebacks, as pyspark and py4j would."""
    root = logging.getLogger()
    root.addFilter(_is_no_interrupt)
    handler = signal.getsignal(signal.SIGINT)
    spark = local_session("holdfast demo")
    # pyspark's handler calls the JVM from within the call that it interrupts.
    signal.signal(signal.SIGINT, handler)
    try:
        yield spark
    finally:
        spark.stop()
        root.removeFilter(_is_no_interrupt)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return "KeyboardInterrupt" not in record.getMessage()


def timed(status: Status, what: str, frame: DataFrame) -> DataFrame:
    status.update(f"computing {what}")
    start = time.perf_counter()
    frame.count()
    status.console.print(f"{what}: {time.perf_counter() - start:.1f} s")
    return frame


def simulate(spark: SparkSession, sensors: int, seconds: int) -> DataFrame:
    """A reading of each sensor every two seconds; the same on every run."""
    noise = (F.pmod(F.xxhash64("id"), F.lit(2001)) - 1000) / 500.0
    swing = 6 * F.sin(F.col("at") / 700.0 + F.col("sensor"))
    return (
        spark.range(sensors * seconds // EVERY)
        .withColumn("sensor", F.col("id") % sensors)
        .withColumn("at", F.floor(F.col("id") / sensors) * EVERY)
        .withColumn("celsius", F.round(20 + F.col("sensor") % 7 + swing + noise, 2))
        .drop("id")
    )


def windows(readings: DataFrame) -> DataFrame:
    """The windows of every sensor, a shard of sensors at a time."""
    shard = F.pmod(F.col("sensor"), F.lit(SHARDS))
    return readings.groupBy(shard.alias("shard")).applyInPandas(windows_of_shard, SCHEMA)


def spark_windows(readings: DataFrame) -> DataFrame:
    """The same windows by Spark's own sliding window, which copies each row into 60 of them."""
    sliding = F.window(F.timestamp_seconds("at"), f"{SIZE} seconds", f"{SLIDE} seconds")
    answers = readings.groupBy("sensor", sliding.alias("window")).agg(
        F.count("*").alias("n"),
        F.max("celsius").alias("hottest"),
        F.avg("celsius").alias("mean"),
    )
    return answers.withColumn("start", F.unix_seconds("window.start"))
