"""How long Spark has worked on the batches of a query, as Spark itself reports."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Effort"]


class Effort(StreamingQueryListener):
    """Adds up the batches that end from now on; Spark tells of each in a thread of its own."""

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self.seconds = 0.0
        self._spark = spark
        self._query = str(query.id)
        spark.streams.addListener(self)

    def close(self) -> None:
        self._spark.streams.removeListener(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing has been done."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        if str(event.progress.id) == self._query:
            self.seconds += event.progress.durationMs.get("triggerExecution", 0) / 1000

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing has been done."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """What was done stands."""
