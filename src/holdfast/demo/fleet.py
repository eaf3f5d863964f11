"""A fleet of simulated sensors, streamed through `holdfast.window` on embedded Spark."""

from __future__ import annotations

import logging
import math
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console

import holdfast
from holdfast import aggregates as agg
from holdfast.demo.interrupts import postponed
from holdfast.spark.metrics import progress_line, watch
from holdfast.spark.sessions import SHORT_LIVED, local_session

__all__ = ["SIZE", "SLIDE", "Fleet", "run_fleet"]

SIZE: Final = 300
SLIDE: Final = 1
"""A five-minute window that slides every second."""

MINUTE: Final = 60
START: Final = 1_772_366_400
"""When the simulation begins: 1 March 2026, 12:00 UTC."""
FILE: Final = 2
"""So many minutes are in one file, and so in one batch of the stream."""
SAMPLE: Final = 3
"""How many sensors are held against Spark's own windows."""


@dataclass(frozen=True)
class Fleet:
    """What the run gave, and how a sample of it compares with Spark's own windows."""

    rows: int
    windows: int
    seconds: float
    """How long the stream took."""
    compared: int
    """Windows of the sample, of either side."""
    different: int
    hottest: list[tuple[int, float, int]]
    """Sensor, mean and end (seconds from the start) of the hottest full windows."""
    readings: pd.DataFrame
    """The readings of a few sensors, for the picture."""
    answers: pd.DataFrame
    """Their windows."""


def run_fleet(console: Console, folder: Path, sensors: int, minutes: int) -> Fleet:
    """Simulate, stream, compare a sample; leaves the readings and the windows in `folder`."""
    for name in ("readings", "windows", "checkpoint"):
        shutil.rmtree(folder / name, ignore_errors=True)
    with console.status("starting Spark") as status, interruptible_session() as spark:
        status.update(f"simulating {sensors:,} sensors")
        readings = simulate(spark, folder / "readings", sensors, minutes)
        status.stop()
        start = time.perf_counter()
        windows = stream(spark, console, folder, readings.schema.simpleString()[7:-1])
        seconds = time.perf_counter() - start
        status.start()
        status.update("comparing a sample with Spark's own windows")
        compared, different = compare(readings, windows, sensors)
        status.update("looking for the hottest sensors")
        hottest = find_hottest(windows)
        shown = [sensor for sensor, _, _ in hottest[:3]]
        return Fleet(
            rows=readings.count(),
            windows=windows.count(),
            seconds=seconds,
            compared=compared,
            different=different,
            hottest=hottest,
            readings=since_start(readings.where(F.col("sensor").isin(shown)), "at"),
            answers=since_start(windows.where(F.col("sensor").isin(shown)), "end"),
        )


@contextmanager
def interruptible_session() -> Iterator[SparkSession]:
    """A session in which Ctrl-C prints no tracebacks, as pyspark and py4j would."""
    quiet = [logging.getLogger(name) for name in _SAYING]
    for logger in quiet:
        logger.addFilter(_is_no_interrupt)
    # A JVM that pyspark gives up while it starts finds nobody to tell its port, and stays for ever.
    with postponed():
        spark = local_session("holdfast demo", java=SHORT_LIVED)
    try:
        yield spark
    finally:
        spark.stop()
        for logger in quiet:
            logger.removeFilter(_is_no_interrupt)


_SAYING: Final = ("root", "py4j.clientserver", "py4j.java_gateway")
"""Loggers that tell of calls of the JVM; a filter of one is not asked by those below it."""


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    # The second is what py4j says when it closes what an interrupt has left half said.
    said = ("KeyboardInterrupt", "Exception while sending command")
    return not any(each in record.getMessage() for each in said)


def simulate(spark: SparkSession, folder: Path, sensors: int, minutes: int) -> DataFrame:
    """A reading of each sensor every second, the same on every run; a file for some minutes."""
    noise = (F.pmod(F.xxhash64("id"), F.lit(2001)) - 1000) / 500.0
    swing = 6 * F.sin(F.col("second") / 200.0 + F.col("sensor"))
    readings = (
        spark.range(sensors * minutes * MINUTE)
        .withColumn("sensor", F.col("id") % sensors)
        .withColumn("second", F.floor(F.col("id") / sensors))
        .withColumn("at", F.timestamp_seconds(F.lit(START) + F.col("second")))
        .withColumn("celsius", F.round(20 + F.col("sensor") % 7 + swing + noise, 2))
    )
    for number in range(math.ceil(minutes / FILE)):
        within = readings.where(F.floor(F.col("second") / (FILE * MINUTE)) == number)
        (
            within.select("sensor", "at", "celsius")
            .coalesce(1)
            .write.mode("append")
            .parquet(f"{folder}")
        )
    return spark.read.parquet(str(folder))


def stream(spark: SparkSession, console: Console, folder: Path, schema: str) -> DataFrame:
    """The windows of every sensor, file by file, by one streaming query."""
    readings = (
        spark.readStream.schema(schema.replace(":", " "))
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "readings"))
        .withWatermark("at", "2 seconds")
    )
    windows = holdfast.window(
        readings,
        key="sensor",
        time="at",
        size=f"{SIZE}s",
        slide=f"{SLIDE}s",
        aggs=[
            agg.count().alias("n"),
            agg.max("celsius").alias("hottest"),
            agg.mean("celsius").alias("mean"),
        ],
    )
    with watch(spark) as metrics, progress_line(metrics, console):
        query = (
            windows.writeStream.queryName("sensors")
            .format("parquet")
            .option("path", str(folder / "windows"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return spark.read.parquet(str(folder / "windows")).select(
        "sensor", F.col("window.start").alias("start"), F.col("window.end").alias("end"),
        "n", "hottest", "mean",
    )  # fmt: skip


def compare(readings: DataFrame, windows: DataFrame, sensors: int) -> tuple[int, int]:
    """How many windows of a sample there are, and how many differ from Spark's own.

    Spark's copies each row into 300 windows, so it gets a few sensors only.
    """
    chosen = F.col("sensor").isin([i * sensors // SAMPLE for i in range(SAMPLE)])
    [[ended]] = windows.agg(F.max("end")).collect()
    sliding = F.window("at", f"{SIZE} seconds", f"{SLIDE} seconds")
    theirs = (
        readings.where(chosen)
        .groupBy("sensor", sliding.alias("window"))
        .agg(
            F.count("*").alias("n"),
            F.max("celsius").alias("hottest"),
            F.avg("celsius").alias("mean"),
        )
        .select("sensor", F.col("window.start").alias("start"), "window", "n", "hottest", "mean")
        .where(F.col("window.end") <= ended)
    )
    both = (
        windows.where(chosen)
        .alias("ours")
        .join(theirs.alias("theirs"), ["sensor", "start"], "full")
    )
    same = (
        (F.col("ours.n") == F.col("theirs.n"))
        & (F.col("ours.hottest") == F.col("theirs.hottest"))
        & (F.abs(F.col("ours.mean") - F.col("theirs.mean")) < 1e-9)
    )
    [counted] = both.agg(
        F.count("*").alias("all"), F.count_if(~F.coalesce(same, F.lit(False))).alias("different")
    ).collect()
    return counted["all"], counted["different"]


def find_hottest(windows: DataFrame) -> list[tuple[int, float, int]]:
    [[most]] = windows.agg(F.max("n")).collect()
    best = (
        windows.where(F.col("n") == most)
        .groupBy("sensor")
        .agg(F.max(F.struct("mean", "end")).alias("best"))
    )
    top = best.orderBy(F.desc("best")).limit(5).collect()
    return [(row.sensor, row.best.mean, int(row.best.end.timestamp()) - START) for row in top]


def since_start(frame: DataFrame, column: str) -> pd.DataFrame:
    """Rows for a picture, with a time in seconds since the start."""
    return frame.withColumn(column, F.unix_seconds(column) - START).toPandas()
