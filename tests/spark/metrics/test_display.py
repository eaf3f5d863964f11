"""The line for people, on terminals and in files."""

from __future__ import annotations

import re
import threading
from uuid import UUID, uuid4

import pytest
from rich.console import Console

from holdfast.spark.metrics import WindowMetrics, display, progress_line
from tests.spark.metrics.readers import Output
from tests.spark.metrics.reports import QUERY, observation, progress, started, terminated


def test_a_file_gets_each_line_once_when_nothing_happens(
    metrics: WindowMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "LOG_INTERVAL", 0.01)
    output = Output()
    with progress_line(metrics, Console(file=output)):
        metrics.onQueryStarted(started())
        assert output.written.wait(60)
        output.written.clear()
        watermark = {"watermark": "2026-01-01T23:00:09.000Z"}
        figures = observation(rows=1_234_567, late=2, answers=3600, open_panes=12)
        metrics.onQueryProgress(progress({"holdfast": figures}, eventTime=watermark))
        assert output.written.wait(60)
    assert output.getvalue().splitlines() == [
        "sensors  waiting for its first batch",
        "sensors  1 batches  1.23M rows  2 rows/s  2 late  3,600 windows out  12 open panes  "
        "watermark 2026-01-01 23:00:09  2.00 s/batch",
    ]
    assert "holdfast progress" not in {thread.name for thread in threading.enumerate()}


def test_a_file_gets_the_end_even_of_a_short_block(metrics: WindowMetrics) -> None:
    output = Output()
    console = Console(file=output)
    with pytest.raises(KeyboardInterrupt), progress_line(metrics, console):  # noqa: PT012
        metrics.onQueryTerminated(terminated("java.io.IOException: disk full\n\tat a.b(c)"))
        metrics.onQueryTerminated(terminated(id=str(UUID(int=9)), name=None))
        raise KeyboardInterrupt
    assert output.getvalue().splitlines() == [
        f"{QUERY}  failed: disk full",
        f"{UUID(int=9)}  ended",
    ]


@pytest.mark.parametrize(("late", "coloured"), [(0, False), (3, True)])
def test_a_terminal_shows_late_rows_in_colour(
    metrics: WindowMetrics, late: int, coloured: bool
) -> None:
    output = Output()
    console = Console(file=output, force_terminal=True, width=200, color_system="standard")
    with progress_line(metrics, console):
        metrics.onQueryProgress(progress({"holdfast": observation(rows=9, late=late)}))
    assert f"{late} late" in output.getvalue()
    assert (f"\x1b[33m{late} late\x1b[0m" in output.getvalue()) is coloured


def test_a_narrow_terminal_gets_one_line_for_each_query(metrics: WindowMetrics) -> None:
    output = Output()
    console = Console(file=output, force_terminal=True, width=40, color_system=None)
    for number in range(2):
        metrics.onQueryProgress(progress(id=str(uuid4()), name=f"query {number}"))
    with progress_line(metrics, console):
        pass
    shown = re.split(r"\x1b\[[0-9;?]*[A-Za-z]|\s*[\r\n]", output.getvalue())
    shown = [line for line in shown if line]
    assert [line[:7] for line in shown[-2:]] == ["query 0", "query 1"]
    assert all(len(line) <= 40 for line in shown)
