"""Made-up rows: simulated sensors, and Spark's rate source.

Spark gives a batch the same rows however often it is run, and the number of the batch is logged
with them: what was brought before a restart is not brought again.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import StoreUnavailableError
from holdfast.pipeline.process.source import StoppedError
from holdfast.pipeline.sources.inlets import Inlet
from holdfast.spark.sessions import local_session

TICK = 0.05
"""Seconds between two batches."""
AT_ONCE = 65_536
BLOCK = 1024
"""Noise is made for so many rows at once."""
TURN = 600
"""Readings of a sensor until its wave comes round."""


def readings(seed: int, sensors: int, start: int, stop: int) -> pa.Table:
    """The rows from one number to another: sensors take turns."""
    numbers = np.arange(start, stop)
    sensor, step = numbers % sensors, numbers // sensors
    wave = 10 * np.sin(2 * math.pi * (step / TURN + sensor / sensors))
    blocks = range(start // BLOCK, -(-stop // BLOCK))
    noise = np.concatenate(
        [np.random.default_rng([seed, block]).normal(0, 0.5, BLOCK) for block in blocks]
        or [np.zeros(0)]
    )
    first = start - start // BLOCK * BLOCK
    values = np.round(20 + wave + noise[first : first + len(numbers)], 3)
    width = len(str(sensors - 1))
    names = np.array([f"sensor-{number:0{width}d}" for number in range(sensors)])
    return pa.table({"sensor": pa.array(names[sensor]), "value": pa.array(values)})


class SensorsBringer:
    """The place is the number of rows brought."""

    def __init__(self, *, seed: int, sensors: int, rows_per_second: float) -> None:
        self._seed = seed
        self._sensors = sensors
        self._pace = rows_per_second

    def bring(self, inlet: Inlet) -> None:
        done = first = inlet.place or 0
        begun = time.monotonic()
        while True:
            due = first + int((time.monotonic() - begun) * self._pace)
            if due > done:
                stop = min(due, done + AT_ONCE)
                inlet.take(readings(self._seed, self._sensors, done, stop), stop)
                done = stop
            inlet.pause(TICK if done >= due else 0)


LOOK = 0.1
"""Seconds between two looks at the query."""
EVERY = "200 milliseconds"


class RateBringer:
    """The place is the number of the last batch brought. In a process without a Spark session it
    makes one, and stops it in the end."""

    def __init__(self, stream: str, rows_per_second: float, checkpoint: Path) -> None:
        self._stream = stream
        self._rows = max(1, round(rows_per_second))
        self._checkpoint = checkpoint
        # Threads have each their own.
        self._given = SparkSession.getActiveSession()

    def bring(self, inlet: Inlet) -> None:
        spark = self._given or local_session(f"holdfast {self._stream}", master="local[1]")
        try:
            self._run(spark, inlet)
        finally:
            if self._given is None:
                spark.stop()

    def _run(self, spark: SparkSession, inlet: Inlet) -> None:
        def bring(batch: DataFrame, number: int) -> None:
            if inlet.place is None or number > inlet.place:
                inlet.take(batch.toArrow(), number)

        query: Any = (
            spark.readStream.format("rate")
            .option("rowsPerSecond", self._rows)
            .option("numPartitions", 1)
            .load()
            .writeStream.foreachBatch(bring)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(processingTime=EVERY)
            .start()
        )
        try:
            while query.isActive:
                inlet.pause(LOOK)
        except StoppedError:
            query.stop()
            return
        raise StoreUnavailableError(
            f"{self._stream}: Spark's query has ended ({query.exception()}); start the source anew"
        )
