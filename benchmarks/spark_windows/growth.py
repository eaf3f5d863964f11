"""What more windows and more keys cost Holdfast."""

from __future__ import annotations

from benchmarks.spark_windows.bench import Bench
from benchmarks.spark_windows.engines import HOLDFAST, Window
from benchmarks.spark_windows.runs import FIGURES, STATE, figures, state

__all__ = ["more_keys", "more_windows"]


def more_windows(bench: Bench) -> None:
    """Windows of 30 s, 60 s, 90 s and so on, all sliding by 10 s, share their panes."""
    feed = bench.scale.feeds[0]
    rows = []
    for count in bench.scale.window_counts:
        windows = tuple(Window(30 * (number + 1), 10) for number in range(count))
        run = bench.measure(HOLDFAST, feed, windows)
        rows.append([count, *figures(run), *state(run)])
    bench.report.table(
        f"Holdfast, windows that share panes, each with answers of its own: {feed}",
        ["windows", *FIGURES, *STATE],
        rows,
    )


def more_keys(bench: Bench) -> None:
    """The same rows per second, of more and more keys; answers grow with the keys."""
    window = Window(60, 10)
    rows = []
    for feed in bench.scale.growing_keys:
        run = bench.measure(HOLDFAST, feed, (window,))
        rows.append([feed.keys, *figures(run), *state(run)])
    per_second = bench.scale.growing_keys[0].rows_per_second
    bench.report.table(
        f"Holdfast, more keys, {window}: {per_second:,.0f} rows per second of event time",
        ["keys", *FIGURES, *STATE],
        rows,
    )
