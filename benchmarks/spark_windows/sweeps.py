"""Does the cost depend on the size of the window? Only one thing changes at a time.

The peer in these tables is Spark's own tumbling window of one slide: the same output rate, nothing
to combine. To come near it whatever the size is the stretch goal, reported but not claimed.
"""

from __future__ import annotations

from benchmarks.spark_windows.bench import Bench
from benchmarks.spark_windows.data import Feed
from benchmarks.spark_windows.engines import HOLDFAST, NATIVE, Window, show_seconds
from benchmarks.spark_windows.runs import FIGURES, STATE, figures, ratio, state

__all__ = ["growing_sizes", "shrinking_slides"]

FLAT_FROM = 6
"""Seconds: smaller windows are tumbling ones, which Spark itself does."""

EVEN = 0.7


def growing_sizes(bench: Bench) -> None:
    """The slide stays at one second, so all windows answer equally often."""
    for feed in bench.scale.feeds:
        windows = [Window(size, 1) for size in bench.scale.swept_sizes]
        bench.compare(NATIVE, feed, [Window(1, 1)], bench.scale.rounds)
        bench.compare([HOLDFAST], feed, windows, bench.scale.rounds)
        _table(bench, feed, windows, "slide of 1 s, growing size")
        runs = [bench.result(HOLDFAST, feed, each) for each in windows if each.size >= FLAT_FROM]
        by_rate = sorted(runs, key=lambda run: run.rate.median)
        even = ratio(by_rate[0], by_rate[-1])
        bench.report.claim(
            f"slowest size over fastest, slide 1 s, {feed.keys:,} keys",
            even.median,
            EVEN,
            f"itself at sizes from {FLAT_FROM} s to {show_seconds(windows[-1].size)}",
            spread=even.range,
        )


def shrinking_slides(bench: Bench) -> None:
    """The size stays at the largest one."""
    size = bench.scale.sizes[-1]
    for feed in bench.scale.feeds:
        windows = [Window(size, size // ratio) for ratio in bench.scale.ratios]
        for window in windows:
            bench.compare([HOLDFAST], feed, [window])
            bench.compare(NATIVE, feed, [Window(window.slide, window.slide)])
        _table(bench, feed, windows, f"size of {show_seconds(size)}, shrinking slide")


def _table(bench: Bench, feed: Feed, windows: list[Window], title: str) -> None:
    rows = []
    for window in windows:
        run = bench.result(HOLDFAST, feed, window)
        tumbling = ratio(run, bench.fastest_native(feed, Window(window.slide, window.slide)))
        rows.append([str(window), *figures(run), *state(run), tumbling.median])
    bench.report.table(
        f"Holdfast, {title}: {feed}",
        ["size / slide", *FIGURES, *STATE, "times Spark tumbling by the slide"],
        rows,
    )
