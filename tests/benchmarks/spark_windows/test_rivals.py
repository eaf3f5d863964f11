from __future__ import annotations

import io

from rich.console import Console

from benchmarks.report import Report
from benchmarks.spark_windows.data import Feed
from benchmarks.spark_windows.engines import Window
from benchmarks.spark_windows.rivals import Rival, rivals_table
from benchmarks.timing import Spread

FEED = Feed(10, 0.1)
MINUTE, HOUR = Window(60, 1), Window(3600, 1)


def rival(engine: str, window: Window, rate: float, remark: str = "") -> Rival:
    return Rival(engine, FEED, window, Spread(rate, rate / 2, rate * 2), 30.0, remark)


def test_engines_stand_by_window_and_are_compared_with_holdfast_at_the_same() -> None:
    report = Report("part", Console(file=io.StringIO()))
    rivals_table(
        report,
        [
            rival("Holdfast", MINUTE, 800.0),
            rival("Holdfast", HOUR, 600.0),
            rival("slow", HOUR, 6.0, "cut off"),
            rival("slow", MINUTE, 80.0),
            rival("stuck", HOUR, 0.0, "cut off"),
        ],
    )
    (table,) = report.as_dict()["tables"]
    assert [(row[1], row[2], row[7]) for row in table["rows"]] == [
        ("1 min / 1 s", "Holdfast", 1.0),
        ("1 min / 1 s", "slow", 10.0),
        ("1 h / 1 s", "Holdfast", 1.0),
        ("1 h / 1 s", "slow", 100.0),
        ("1 h / 1 s", "stuck", float("inf")),
    ]
    assert table["rows"][3][3:] == [6.0, 3.0, 12.0, 30, 100.0, "cut off"]
