"""Slices made by tasks that Spark runs twice: `python -m harness.verified.speculated MASTER FOLDER
SEED`.

The driver of a cluster with two workers. It makes the slices of a stage, first as it is; then with
tasks of which the first attempt at one slice, once it has written its file, waits until a second
one has reported, so that Spark must have speculated. Prints what both came to, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from holdfast.verify.machine import Report, Run
from holdfast.verify.process.slices import Making, make_slices

__all__ = ["SLICES", "SLOW"]

SLICES: Final = 4
SLOW: Final = 1
"""The slice whose first attempt waits."""
DEADLINE: Final = 120.0
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "100s",
    "spark.sql.shuffle.partitions": "3",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}


@dataclass(frozen=True)
class Witness:
    """Writes what it is told to a file of each attempt."""

    folder: Path
    waits: bool

    def report(self, report: Report) -> None:
        context = TaskContext.get()
        assert context is not None
        attempt = context.attemptNumber()
        end = time.monotonic() + DEADLINE
        if self.waits and report.slice == SLOW and attempt == 0:
            while not self._path(report.slice, 1).exists() and time.monotonic() < end:
                time.sleep(0.05)
        said = {"slice": report.slice, "attempt": attempt, "digest": report.digest.hex()}
        unfinished = self._path(report.slice, attempt).with_suffix(".part")
        unfinished.write_text(json.dumps(said | {"path": report.path, "rows": report.rows}))
        unfinished.rename(self._path(report.slice, attempt))

    def _path(self, number: int, attempt: int) -> Path:
        return self.folder / f"{number}-{attempt}.told"


def _stage(spark: SparkSession, seed: int) -> DataFrame:
    """A join, a group-by and sums of floating-point numbers."""
    rows = 20_000 + Random(seed).randrange(20_000)
    readings = spark.range(0, rows, 1, 5).select(
        (F.col("id") % 701).alias("meter"),
        (F.xxhash64("id", F.lit(seed)) % 10_000 / 7).alias("wh"),
    )
    meters = spark.range(701).select(
        F.col("id").alias("meter"), F.concat(F.lit("c"), F.col("id") % 97).alias("customer")
    )
    exact = F.sum(F.col("wh").cast("decimal(28, 6)")).cast("double")
    return readings.join(meters, "meter").groupBy("customer", "meter").agg(exact.alias("wh"))


def main(arguments: list[str]) -> None:
    master, folder, seed = arguments[0], Path(arguments[1]), int(arguments[2])
    builder = SparkSession.builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    found = {}
    for name, waits in (("once", False), ("twice", True)):
        told = folder / name
        told.mkdir()
        witness = Witness(told, waits)
        making = Making("job", "stage", Run(), b"", 1, folder / f"storage {name}", witness)
        slices = make_slices(_stage(spark, seed), SLICES, making, witness)
        found[name] = {
            "digests": [each.digest.hex() for each in slices],
            "told": [json.loads(path.read_text()) for path in sorted(told.glob("*.told"))],
        }
    spark.stop()
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
