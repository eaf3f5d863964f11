"""The listener that hears Spark's progress reports and keeps the figures of every query.

Spark calls it on a thread of its own, on the driver or, over Spark Connect, in the client. It never
raises there, and it takes nothing from the query but the reports.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Condition
from typing import Final
from uuid import UUID

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from holdfast.spark.metrics.figures import QueryFigures

__all__ = ["WindowMetrics", "watch"]

MOST_ENDED: Final = 100
"""Ended queries are kept up to this number, then the oldest is forgotten."""

MOST_RUNS: Final = 16
"""Runs of a query that are remembered, so that a straggling report does not look like a new run."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Record:
    """A query, and its runs. Reports of an old run may come after the next has started."""

    figures: QueryFigures
    runs: deque[UUID] = field(default_factory=lambda: deque(maxlen=MOST_RUNS))


class WindowMetrics(StreamingQueryListener):
    """The figures of all queries of a session; `watch` makes and registers one. Thread-safe."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._records: dict[UUID, _Record] = {}

    def snapshot(self) -> list[QueryFigures]:
        """Every query seen so far, the oldest first."""
        with self._changed:
            return [record.figures for record in self._records.values()]

    def wait_for(
        self, condition: Callable[[list[QueryFigures]], bool], timeout: float | None = None
    ) -> bool:
        """Wait until the figures meet the condition; False if they did not within the seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self.snapshot()), timeout)

    def settle(self, timeout: float = 5.0) -> bool:
        """Wait until the figures have caught up with the queries; Spark reports with a small delay.

        A query that goes on is waited for up to the batch it has finished by now. False if the
        seconds were not enough, or if there is no session to ask.
        """
        last = self._last_batches()
        if last is None:
            return False
        return self.wait_for(
            lambda queries: all(
                query.last_batch >= last[query.id] if query.id in last else not query.running
                for query in queries
            ),
            timeout,
        )

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        with self._update():
            self._record(event.id, event.runId, event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        with self._update():
            progress = event.progress
            record = self._record(progress.id, progress.runId, progress.name)
            record.figures = record.figures.after(progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing has changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        with self._update():
            record = self._record(event.id, event.runId, None)
            if event.runId == record.runs[-1]:
                record.figures = replace(record.figures, running=False, error=event.exception)
            self._forget_oldest()

    @contextmanager
    def _update(self) -> Iterator[None]:
        try:
            with self._changed:
                yield
                self._changed.notify_all()
        except Exception:
            _log.warning("a progress report was left out of the metrics", exc_info=True)

    def _record(self, id: UUID, run: UUID, name: str | None) -> _Record:
        """The record of the query; a run not seen before is the current one from here on.

        Any event may be a run's first: the query may be older than the listener, and Spark Connect
        reports the start after the fact.
        """
        record = self._records.setdefault(id, _Record(QueryFigures(str(id))))
        if run not in record.runs:
            record.runs.append(run)
            record.figures = replace(record.figures, running=True, error=None)
        if name is not None:
            record.figures = replace(record.figures, name=name)
        return record

    def _last_batches(self) -> dict[str, int] | None:
        """The last batch of each active query, None if the session is gone."""
        if self.spark is None:
            return None
        try:
            active = {query.id: query.lastProgress for query in self.spark.streams.active}
        except Exception:
            return None
        return {id: progress.batchId if progress else -1 for id, progress in active.items()}

    def _forget_oldest(self) -> None:
        ended = [id for id, record in self._records.items() if not record.figures.running]
        for id in ended[: max(0, len(ended) - MOST_ENDED)]:
            del self._records[id]


@contextmanager
def watch(spark: SparkSession) -> Iterator[WindowMetrics]:
    """Keep the figures of the session's streaming queries while the block runs.

    They can be read after it as well. Queries that run already are seen from their next batch on.
    """
    metrics = WindowMetrics()
    metrics.spark = spark
    spark.streams.addListener(metrics)
    try:
        yield metrics
    finally:
        metrics.settle()
        # The session may have been stopped in the block, and its listeners with it.
        with suppress(Exception):
            spark.streams.removeListener(metrics)
