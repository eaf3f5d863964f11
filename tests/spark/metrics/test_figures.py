"""What reports add up to, figure by figure."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.spark.metrics import COUNTERS, LEVELS, WindowFigures, WindowMetrics
from tests.spark.metrics.readers import only
from tests.spark.metrics.reports import OPERATOR, QUERY, observation, progress, started, terminated


def test_counters_add_up_and_levels_are_the_last_ones(metrics: WindowMetrics) -> None:
    metrics.onQueryStarted(started())
    everything = {name: 10 + i for i, name in enumerate((*COUNTERS, *LEVELS))}
    metrics.onQueryProgress(progress({"holdfast": everything}))
    metrics.onQueryProgress(progress({"holdfast": everything}, batch=1))
    query = only(metrics)
    assert (query.id, query.name, query.running, query.error) == (str(QUERY), "sensors", True, None)
    assert (query.batches, query.last_batch, query.input_rows) == (2, 1, 10)
    assert (query.batch_seconds, query.batch_seconds_total) == (2.0, 4.0)
    assert (query.input_rows_per_second, query.processed_rows_per_second) == (4.0, 2.5)
    (window,) = query.windows
    assert window.window == "holdfast"
    assert [getattr(window, name) for name in COUNTERS] == [
        2 * everything[name] for name in COUNTERS
    ]
    assert [getattr(window, name) for name in LEVELS] == [everything[name] for name in LEVELS]


def test_the_sum_of_no_rows_changes_nothing(metrics: WindowMetrics) -> None:
    metrics.onQueryProgress(progress({"holdfast": observation(rows=7, late=2, open_panes=4)}))
    before = only(metrics).windows
    nothing = dict.fromkeys((*COUNTERS, *LEVELS))
    metrics.onQueryProgress(progress({"holdfast": nothing}, batch=1))
    metrics.onQueryProgress(progress({"holdfast": {}}, batch=2))
    assert only(metrics).windows == before
    assert only(metrics).batches == 3


def test_windows_of_one_query_are_apart_and_others_observations_are_left_out(
    metrics: WindowMetrics,
) -> None:
    metrics.onQueryProgress(
        progress(
            {
                "hour": observation(rows=5, answers=1, keys=2),
                "day": observation(rows=3, answers=1, keys=4),
                "mine": {"rows": 1000, "biggest": 3.5},
            }
        )
    )
    query = only(metrics)
    assert {window.window: window.rows for window in query.windows} == {"hour": 5, "day": 3}
    assert query.total == WindowFigures("", rows=8, answers=2, keys=6)


def test_without_observations_sparks_own_figures_stand_in(metrics: WindowMetrics) -> None:
    late = {**OPERATOR, "numRowsDroppedByWatermark": 2}
    metrics.onQueryProgress(progress(stateOperators=[late, OPERATOR]))
    metrics.onQueryProgress(progress(batch=1, stateOperators=[late, OPERATOR]))
    query = only(metrics)
    assert query.windows == ()
    assert query.total == WindowFigures("", rows=10, late=4, answers=6)


def test_a_sink_that_does_not_count_leaves_answers_unknown(metrics: WindowMetrics) -> None:
    for batch in range(2):
        sink = {"description": "files", "numOutputRows": -1}
        metrics.onQueryProgress(progress(batch=batch, sink=sink))
    assert only(metrics).output_rows is None
    assert only(metrics).total.answers is None


def test_state_is_that_of_all_operators(metrics: WindowMetrics) -> None:
    metrics.onQueryProgress(progress(stateOperators=[OPERATOR, OPERATOR]))
    assert only(metrics).state_disk_bytes is None
    rocks = {**OPERATOR, "customMetrics": {"rocksdbSstFileSize": 300}}
    metrics.onQueryProgress(progress(batch=1, stateOperators=[rocks, rocks]))
    query = only(metrics)
    assert (query.state_rows, query.state_memory_bytes, query.state_disk_bytes) == (20, 2000, 600)


def test_there_is_no_watermark_until_spark_has_one(metrics: WindowMetrics) -> None:
    metrics.onQueryProgress(progress())
    metrics.onQueryProgress(progress(eventTime={"watermark": "1970-01-01T00:00:00.000Z"}))
    assert only(metrics).watermark is None
    metrics.onQueryProgress(progress(eventTime={"watermark": "2026-01-01T23:00:09.500Z"}))
    metrics.onQueryProgress(progress())
    assert only(metrics).watermark == datetime(2026, 1, 1, 23, 0, 9, 500_000, UTC)


def test_a_rate_over_no_time_is_none(metrics: WindowMetrics) -> None:
    metrics.onQueryProgress(
        progress(inputRowsPerSecond=float("inf"), processedRowsPerSecond=float("nan"))
    )
    query = only(metrics)
    assert (query.input_rows_per_second, query.processed_rows_per_second) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            "org.apache.spark.SparkException: [BOOM] no: luck SQLSTATE: P0001\n\tat a.b(c)\n",
            "[BOOM] no: luck",
        ),
        (
            "org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception: "
            'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    g()\n'
            "ValueError: no such sensor\n SQLSTATE: 38000\n\tat a.b(c)\n\tat d.e(f)\n",
            "ValueError: no such sensor",
        ),
        ("disk full", "disk full"),
        ("", ""),
    ],
)
def test_the_reason_is_the_telling_line_of_an_error(
    metrics: WindowMetrics, error: str, reason: str
) -> None:
    metrics.onQueryTerminated(terminated(error))
    assert (only(metrics).error, only(metrics).reason) == (error, reason)
