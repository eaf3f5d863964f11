"""Spark's rate source: a query whose batches are brought one by one.

Spark gives a batch the same rows however often it is run, and the number of the batch is logged
with them: what was brought before a restart is not brought again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import StoreUnavailableError
from holdfast.parties.driver import StoppedError
from holdfast.sources.inlets import Inlet
from holdfast.spark.sessions import local_session

__all__ = ["RateBringer"]

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
