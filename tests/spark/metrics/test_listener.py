"""Queries come and go, and their reports arrive in any order, on any thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest

from holdfast.spark.metrics import WindowMetrics
from holdfast.spark.metrics.listener import MOST_ENDED
from tests.spark.metrics.readers import only
from tests.spark.metrics.reports import QUERY, observation, progress, started, terminated


def test_a_restarted_query_goes_on_counting(metrics: WindowMetrics) -> None:
    metrics.onQueryStarted(started())
    metrics.onQueryProgress(progress())
    metrics.onQueryTerminated(terminated("disk full"))
    assert (only(metrics).running, only(metrics).error) == (False, "disk full")
    again = str(uuid4())
    metrics.onQueryStarted(started(runId=again))
    assert (only(metrics).running, only(metrics).error) == (True, None)
    metrics.onQueryProgress(progress(batch=1, runId=again))
    assert only(metrics).batches == 2


def test_reports_of_the_last_run_may_come_after_the_next_has_started(
    metrics: WindowMetrics,
) -> None:
    metrics.onQueryStarted(started())
    metrics.onQueryStarted(started(runId=str(uuid4())))
    metrics.onQueryProgress(progress())
    metrics.onQueryTerminated(terminated("disk full"))
    query = only(metrics)
    assert (query.batches, query.running, query.error) == (1, True, None)


def test_the_start_may_be_reported_after_the_end(metrics: WindowMetrics) -> None:
    metrics.onQueryTerminated(terminated("disk full"))
    metrics.onQueryStarted(started())
    query = only(metrics)
    assert (query.name, query.running, query.error) == ("sensors", False, "disk full")


def test_the_oldest_of_many_ended_queries_are_forgotten(metrics: WindowMetrics) -> None:
    metrics.onQueryStarted(started(name="running"))
    for number in range(MOST_ENDED + 5):
        metrics.onQueryTerminated(terminated(id=str(UUID(int=100 + number))))
    ids = [UUID(query.id).int for query in metrics.snapshot()]
    assert ids == [QUERY.int, *range(105, 105 + MOST_ENDED)]


def test_a_report_nobody_can_read_is_left_out_and_logged(
    metrics: WindowMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    metrics.onQueryProgress(progress({"holdfast": observation(rows=1)}))
    before = metrics.snapshot()
    metrics.onQueryProgress(progress({"holdfast": {**observation(), "rows": "many"}}))
    metrics.onQueryProgress(progress(batchDuration=None))
    metrics.onQueryStarted(None)  # type: ignore[arg-type]
    metrics.onQueryTerminated(None)  # type: ignore[arg-type]
    assert metrics.snapshot() == before
    assert len(caplog.records) == 4


def test_reports_from_many_threads_are_all_counted(metrics: WindowMetrics) -> None:
    event = progress({"holdfast": observation(rows=3)})
    with ThreadPoolExecutor(8) as threads:
        for _ in range(400):
            threads.submit(metrics.onQueryProgress, event)
        assert metrics.wait_for(lambda queries: any(q.batches == 400 for q in queries), timeout=30)
    assert only(metrics).windows[0].rows == 1200


def test_waiting_ends_at_its_timeout(metrics: WindowMetrics) -> None:
    assert not metrics.wait_for(lambda queries: bool(queries), timeout=0.01)
    assert not metrics.settle(timeout=0.01)
