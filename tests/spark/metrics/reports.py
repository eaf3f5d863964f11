"""Reports as Spark sends them to a listener, made up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from holdfast.spark.metrics import COUNTERS, LEVELS

QUERY = UUID(int=1)
RUN = UUID(int=2)
START = {"id": str(QUERY), "runId": str(RUN), "name": "sensors", "timestamp": "now"}

OPERATOR = {
    "operatorName": "transformWithStateExec",
    "numRowsTotal": 10,
    "numRowsUpdated": 0,
    "numRowsRemoved": 0,
    "allUpdatesTimeMs": 0,
    "allRemovalsTimeMs": 0,
    "commitTimeMs": 0,
    "memoryUsedBytes": 1000,
    "numRowsDroppedByWatermark": 0,
    "numShufflePartitions": 2,
    "numStateStoreInstances": 2,
}


def progress(
    observed: Mapping[str, Mapping[str, Any]] | None = None, batch: int = 0, **changes: Any
) -> QueryProgressEvent:
    """A report as Spark writes it, of one batch of 5 rows in 2 seconds."""
    report = {
        **START,
        "batchId": batch,
        "batchDuration": 2000,
        "numInputRows": 5,
        "inputRowsPerSecond": 4.0,
        "processedRowsPerSecond": 2.5,
        "stateOperators": [],
        "sources": [],
        "sink": {"description": "a sink", "numOutputRows": 3},
        "observedMetrics": observed or {},
        **changes,
    }
    return QueryProgressEvent.fromJson({"progress": report})


def started(**changes: Any) -> QueryStartedEvent:
    return QueryStartedEvent.fromJson({**START, **changes})


def terminated(error: str | None = None, **changes: Any) -> QueryTerminatedEvent:
    return QueryTerminatedEvent.fromJson(
        {**START, "exception": error, "errorClassOnException": None, **changes}
    )


def observation(**figures: int | None) -> dict[str, int | None]:
    return {**dict.fromkeys((*COUNTERS, *LEVELS), 0), **figures}
