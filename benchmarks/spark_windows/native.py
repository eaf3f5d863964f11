"""Holdfast against Spark's own windows, by number of keys, size and slide, with the claims."""

from __future__ import annotations

from benchmarks.spark_windows.bench import Bench
from benchmarks.spark_windows.data import Feed
from benchmarks.spark_windows.engines import HOLDFAST, NATIVE, Window
from benchmarks.spark_windows.runs import FIGURES, STATE, figures, ratio, state

__all__ = ["against_native"]

ENGINES = (*NATIVE, HOLDFAST)
BOUNDS = {1: 0.8, 60: 5.0, 3600: 100.0}
"""By size/slide: how many times Spark's rate Holdfast reaches at least."""


def against_native(bench: Bench) -> None:
    for feed in bench.scale.feeds:
        windows = [
            Window(size, size // ratio)
            for ratio in bench.scale.ratios
            for size in bench.scale.sizes
            # Spark has no window of a minute that slides by a 3600th of it.
            if size % ratio == 0
        ]
        for window in windows:
            # What is close is measured twice; what is far apart would take too long.
            bench.compare(ENGINES, feed, [window], bench.scale.rounds if window.ratio == 1 else 1)
        _tables(bench, feed, windows)
        _claims(bench, feed, windows)


def _tables(bench: Bench, feed: Feed, windows: list[Window]) -> None:
    rates, states = [], []
    for window in windows:
        best = bench.fastest_native(feed, window)
        for engine in ENGINES:
            run = bench.result(engine, feed, window)
            names = [str(window), engine.name]
            rates.append([*names, *figures(run), ratio(run, best).median, run.remark])
            states.append([*names, *state(run)])
    bench.report.table(
        f"Spark's own windows and Holdfast, the window full: {feed}",
        ["size / slide", "engine", *FIGURES, "times Spark", "remark"],
        rates,
    )
    bench.report.table(
        f"their state: {feed.keys:,} keys", ["size / slide", "engine", *STATE], states
    )


def _claims(bench: Bench, feed: Feed, windows: list[Window]) -> None:
    for window in windows:
        if window.ratio in BOUNDS:
            times = ratio(bench.result(HOLDFAST, feed, window), bench.fastest_native(feed, window))
            bench.report.claim(
                f"{window}, {feed.keys:,} keys",
                times.median,
                BOUNDS[window.ratio],
                "Spark's own window on the faster of its two stores",
                spread=times.range,
                unit="x",
            )
