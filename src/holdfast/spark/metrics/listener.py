"""Figures of running queries from Spark's progress reports.

Spark calls it on a thread of its own, on the driver or, over Spark Connect, in the client. It never
raises there, and it takes nothing from the query but the reports.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isfinite
from threading import Condition
from typing import Any, Final
from uuid import UUID

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StateOperatorProgress,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from holdfast.spark.results import COUNTERS, COUNTS

__all__ = ["QueryFigures", "WindowFigures", "WindowMetrics", "watch"]


# The figures of one query and of the windows in it, and what one progress report adds to them.
#
# `holdfast.window` observes `COUNTS` in its query (`df.observe`); Spark carries them
# to the driver in the progress report of each micro-batch. The listener adds them up here.

_MARKS: Final = {"rows", "late", "open_panes"}
"""An observation with these fields is a window's; a user's query may have others."""

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""What Spark reports as the watermark until it has one."""

_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w+\s*\Z")
_JAVA_CLASS: Final = re.compile(r"\A(\w+\.)+\w+: ")


@dataclass(frozen=True, slots=True)
class WindowFigures:
    """One call of `holdfast.window`: counts since it is watched, levels after the last batch.

    `answers` is None where nobody counts them: Spark's own windows into a sink that does not.
    """

    window: str
    rows: int = 0
    late: int = 0
    answers: int | None = 0
    uncertain: int = 0
    pairs_read: int = 0
    pairs_written: int = 0
    pairs_deleted: int = 0
    combines: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    panes: int = 0
    open_panes: int = 0
    keys: int = 0

    def after(self, observed: Mapping[str, Any]) -> WindowFigures:
        """These figures after one more batch. A NULL is the sum of no rows: nothing changed."""
        seen = {name: int(observed[name]) for name in COUNTS if observed.get(name) is not None}
        counted = {name: getattr(self, name) + seen.get(name, 0) for name in COUNTERS}
        changes: dict[str, Any] = {**seen, **counted}
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """One streaming query. Totals count since it is watched, over restarts from its checkpoint too.

    Without windows that Holdfast runs, `windows` is empty and Spark's own figures are all there is.
    """

    id: str
    name: str | None = None
    running: bool = True
    error: str | None = None
    """Why the last run failed, with Spark's whole stack trace; `reason` is its telling line."""

    batches: int = 0
    last_batch: int = -1
    """The number of the last batch as Spark counts, -1 before the first."""

    batch_seconds: float = 0.0
    batch_seconds_total: float = 0.0
    input_rows: int = 0
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    output_rows: int | None = 0
    """Rows written to the sink, None if the sink does not count."""

    dropped_rows: int = 0
    """Dropped by Spark's own operators as late, counted after Spark has pre-aggregated them."""

    watermark: datetime | None = None
    state_rows: int = 0
    state_memory_bytes: int = 0
    state_disk_bytes: int | None = None
    """The files of RocksDB, None with other state stores. State not yet flushed is in memory."""

    windows: tuple[WindowFigures, ...] = ()

    @property
    def label(self) -> str:
        return self.name or self.id

    @property
    def failed(self) -> bool:
        return self.error is not None

    @property
    def watermark_seconds(self) -> float | None:
        return self.watermark.timestamp() if self.watermark else None

    @property
    def total(self) -> WindowFigures:
        """All windows of the query together; without any, what Spark says about its own."""
        if not self.windows:
            return WindowFigures("", self.input_rows, self.dropped_rows, self.output_rows)
        sums = {name: sum(getattr(window, name) for window in self.windows) for name in COUNTS}
        return WindowFigures("", **sums)

    @property
    def reason(self) -> str | None:
        """The line of the error that says what happened: of a Python traceback, the last one."""
        if self.error is None:
            return None
        message = _SQL_STATE.sub("", self.error.partition("\n\tat ")[0])
        if "Traceback (most recent call last)" in message:
            return message.splitlines()[-1].strip()
        return _JAVA_CLASS.sub("", message).partition("\n")[0].strip()

    def after(self, progress: StreamingQueryProgress) -> QueryFigures:
        """These figures after one more batch."""
        seconds = progress.batchDuration / 1000
        operators = progress.stateOperators
        written = progress.sink.numOutputRows
        counted = self.output_rows is not None and written >= 0
        return replace(
            self,
            batches=self.batches + 1,
            last_batch=progress.batchId,
            batch_seconds=seconds,
            batch_seconds_total=self.batch_seconds_total + seconds,
            input_rows=self.input_rows + progress.numInputRows,
            input_rows_per_second=_rate(progress.inputRowsPerSecond),
            processed_rows_per_second=_rate(progress.processedRowsPerSecond),
            output_rows=(self.output_rows or 0) + written if counted else None,
            dropped_rows=self.dropped_rows + sum(o.numRowsDroppedByWatermark for o in operators),
            watermark=_watermark(progress.eventTime) or self.watermark,
            state_rows=sum(operator.numRowsTotal for operator in operators),
            state_memory_bytes=sum(operator.memoryUsedBytes for operator in operators),
            state_disk_bytes=_disk_bytes(operators),
            windows=_windows_after(self.windows, progress.observedMetrics),
        )


def _windows_after(
    windows: tuple[WindowFigures, ...], observations: Mapping[str, Any]
) -> tuple[WindowFigures, ...]:
    known = {window.window: window for window in windows}
    for name, row in observations.items():
        observed = row.asDict()
        if observed.keys() >= _MARKS:
            known[name] = known.get(name, WindowFigures(name)).after(observed)
    return tuple(known.values())


def _rate(rows_per_second: float) -> float:
    """Spark divides by a time that may be nought."""
    return rows_per_second if isfinite(rows_per_second) else 0.0


def _watermark(event_time: Mapping[str, str]) -> datetime | None:
    text = event_time.get("watermark")
    moment = datetime.fromisoformat(text) if text else _BEGINNING
    return moment if moment != _BEGINNING else None


def _disk_bytes(operators: Iterable[StateOperatorProgress]) -> int | None:
    sizes = [
        operator.customMetrics["rocksdbSstFileSize"]
        for operator in operators
        if "rocksdbSstFileSize" in operator.customMetrics
    ]
    return sum(sizes) if sizes else None


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
