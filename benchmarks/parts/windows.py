"""The window core: every algorithm, bulk eviction, many aggregates, many keys, in one run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import run_peer
from benchmarks.report import Report
from benchmarks.timing import Alternative, Spread, Timings, measure
from benchmarks.windows.compiled import CompiledDaba, CompiledTwoStacks
from holdfast.windows import (
    Amta,
    Daba,
    LogMta,
    Monoid,
    Policy,
    Recalculation,
    ShardWindow,
    TwoStacks,
    aggregator,
    policies,
)
from holdfast.windows import monoids as m
from holdfast.windows.fast import FastAmta
from holdfast.windows.kernels import Rows

ALGORITHMS: dict[str, Callable[[Monoid[Any, Any, Any]], Any]] = {
    "recalculation": Recalculation,
    "two-stacks": TwoStacks,
    "daba": Daba,
    "log mta": LogMta,
    "amta": Amta,
}
COMPILED: dict[str, Callable[[Monoid[Any, Any, Any], int], Any]] = {
    "two-stacks": CompiledTwoStacks,
    "daba": CompiledDaba,
    "amta": lambda monoid, size: FastAmta(monoid, capacity=size + 1),
}
MONOIDS: dict[str, Monoid[Any, Any, Any]] = {"sum": m.sum, "max": m.max}
PRODUCTS: dict[str, Monoid[Any, Any, Any]] = {"count": m.count, "sum": m.sum}
SIZES = (2**10, 2**12, 2**16)
BULK_WINDOW = 2**20
BULK_SIZES = (1, 16, 256, 4_096, 65_536)
DIMENSIONS = (1, 2, 5, 10, 20, 50)
KEYS = (1, 100, 10_000)
SERIES = np.random.default_rng(20261115).normal(20.0, 5.0, 2**21)
"""Temperatures: the same values for every algorithm and peer."""


def run(report: Report) -> None:
    slides(report)
    choices(report)
    rolling_peers(report)
    bulk_evictions(report)
    many_aggregates(report)
    many_keys(report)


def slides(report: Report) -> None:
    """Insert, evict one, ask for the result; the window is full before the clock starts.

    Compiled windows are compared with compiled ones, interpreted with interpreted.
    """
    for monoid_name, monoid in MONOIDS.items():
        for size in SIZES:
            report.progress(f"sliding, {monoid_name} over {size:,}")
            for how, make, names in (
                ("interpreted", _interpreted, list(ALGORITHMS)),
                ("compiled by numba", _compiled, list(COMPILED)),
            ):
                timings = measure([make(name, monoid, size) for name in names], repeats=7)
                report.table(
                    f"one slide, all {how}: {monoid_name}, window {size:,}",
                    ["algorithm", "slides/s", "lowest", "highest", "ns", "of two-stacks"],
                    [_slide_row(timings, name, "two-stacks") for name in names],
                )
    report.table(
        "for reference, in C++: nanoseconds per slide, sum over 4,096. Measured by the audit of "
        "revision e139b00 on a loaded machine, not in this run",
        ["window", "ns per slide"],
        [
            ["IBM/sliding-window-aggregators, AMTA in C++", 45.8],
            ["Holdfast, amta, compiled, in that audit", 42.0],
        ],
    )


def _interpreted(name: str, monoid: Monoid[Any, Any, Any], size: int) -> Alternative:
    # Enough slides to pass through the whole window (Two-Stacks' reversal included) except for
    # recalculation, whose slide costs the window.
    count = 8 if name == "recalculation" else 2**16
    values = SERIES[:count].tolist()
    window, policy = ALGORITHMS[name](monoid), policies.last(size)
    for value in SERIES[-size:].tolist():
        window.insert(value)
    return Alternative(name, lambda: window.roll(values, policy), operations=count)


def _compiled(name: str, monoid: Monoid[Any, Any, Any], size: int) -> Alternative:
    values = SERIES[: 2**20]
    window, policy = COMPILED[name](monoid, size), policies.last(size)
    window.roll(SERIES[-size:], policy)
    return Alternative(name, lambda: window.roll(values, policy), operations=len(values))


def choices(report: Report) -> None:
    """Compiled and interpreted AMTA by each policy: `aggregator` must pick the faster."""
    rows = []
    for name, policy, values in _policies():
        report.progress(f"compiled or not: {name}")
        timings = measure(
            [
                Alternative(
                    window.__name__,
                    partial(_roll, window(m.max), values, policy),
                    operations=len(values),
                )
                for window in (Amta, FastAmta)
            ]
        )
        chosen = type(aggregator(m.max, float, policy)).__name__
        other = next(each for each in ("Amta", "FastAmta") if each != chosen)
        ratio = timings.ratio(chosen, other)
        times = [1e6 / timings.rate(each).median for each in ("Amta", "FastAmta")]
        rows.append([name, *times, chosen])
        report.claim(
            f"{chosen}, which aggregator() picks, max by {name}",
            ratio.median,
            1,
            other,
            spread=ratio.range,
            unit="x",
        )
    report.table(
        "max by policy: microseconds per update",
        ["policy", "Amta", "FastAmta (compiled)", "aggregator() picks"],
        rows,
    )


def _policies() -> list[tuple[str, Policy, Rows]]:
    values, rising = SERIES[: 2**14], np.arange(2.0**14)
    return [
        ("last(1,000)", policies.last(1_000), values),
        ("last(a function)", policies.last(lambda _window: 1_000), values),
        ("hopping(1,000, 100)", policies.hopping(1_000, 100), values),
        ("value_bound", policies.value_bound(50.0), values),
        ("before_max", policies.before_max(), values),
        ("before_max, rising", policies.before_max(), rising),
    ]


def _roll(window: Any, values: Rows, policy: Policy) -> None:
    window.roll(values if isinstance(window, FastAmta) else values.tolist(), policy)


def rolling_peers(report: Report) -> None:
    """The same rolling sum and maximum in packages people use for them today."""
    report.progress("rolling sum and maximum in river and polars")
    figures = run_peer(Path(__file__).parent.parent / "scripts" / "rolling.py", *map(str, SIZES))
    report.table(
        "for orientation, in an environment of their own: values/s of a rolling sum or maximum",
        ["package", "aggregate", "window", "values/s", "lowest", "highest"],
        figures,
    )


def bulk_evictions(report: Report) -> None:
    """Evict k of 2^20 at once and ask for the result; refilling is not timed."""
    makers = {**ALGORITHMS, "amta, compiled": FastAmta}
    del makers["recalculation"]
    names = list(makers)
    windows = {}
    for name in names:
        report.progress(f"filling {name} with {BULK_WINDOW:,}")
        windows[name] = makers[name](m.sum)
        for value in SERIES[:BULK_WINDOW].tolist():
            windows[name].insert(value)
    rows = []
    for size in BULK_SIZES:
        report.progress(f"evicting {size:,} of {BULK_WINDOW:,}")
        timings = measure([_bulk(name, windows[name], size) for name in names], repeats=5)
        rows += [
            [size, name, *(1e6 * each for each in _spread(timings.seconds(name)))] for name in names
        ]
    report.table(
        f"bulk eviction from {BULK_WINDOW:,}: microseconds",
        ["evicted", "algorithm", "median", "lowest", "highest"],
        rows,
    )
    ratio = timings.ratio("amta", "daba")
    report.claim(
        f"AMTA evicting {BULK_SIZES[-1]:,} of {BULK_WINDOW:,}",
        ratio.median,
        100,
        "DABA, both in pure Python",
        spread=ratio.range,
        unit="x",
    )


def _bulk(name: str, window: Any, size: int) -> Alternative:
    values = SERIES[:size].tolist()

    def refill() -> tuple[()]:
        for value in values[: BULK_WINDOW - len(window)]:
            window.insert(value)
        return ()

    def evict() -> None:
        window.evict(size)
        window.result()

    return Alternative(name, evict, prepare=refill)


def many_aggregates(report: Report) -> None:
    """k counts or sums in one window against k windows with one each; all answers are read."""
    rows = []
    for name, monoid in PRODUCTS.items():
        for dimensions in DIMENSIONS:
            report.progress(f"{dimensions} of {name} in one window")
            timings = measure(_together_and_apart(monoid, dimensions), repeats=7)
            ratio = timings.ratio("one window", "k windows")
            microseconds = [1e6 / timings.rate(each).median for each in ("one window", "k windows")]
            rows.append([name, dimensions, *microseconds, *_spread(ratio)])
        report.claim(
            f"{DIMENSIONS[-1]} of {name} in one window",
            ratio.median,
            1.5,
            f"{DIMENSIONS[-1]} windows, pure Python",
            spread=ratio.range,
            unit="x",
        )
    report.table(
        "k aggregates: microseconds per slide in one window and in k windows",
        ["aggregate", "k", "one window", "k windows", "times as fast", "lowest", "highest"],
        rows,
    )


def _together_and_apart(monoid: Monoid[Any, Any, Any], dimensions: int) -> list[Alternative]:
    policy, count = policies.last(2**10), 2**11
    values = SERIES[:count].tolist()
    product = Amta(m.product(**{f"of{index}": monoid for index in range(dimensions)}))
    singles = [Amta(monoid) for _ in range(dimensions)]
    for window in (product, *singles):
        window.roll(values, policy)

    def together() -> None:
        for answer in product.roll(values, policy):
            dict(answer)

    def apart() -> None:
        for window in singles:
            window.roll(values, policy)

    return [
        Alternative("one window", together, operations=count),
        Alternative("k windows", apart, operations=count),
    ]


def many_keys(report: Report) -> None:
    """Rows in, sums out for every key at every slide; 60 panes, one row per key in each."""
    size = 60
    rows = []
    for keys in KEYS:
        report.progress(f"shard window with {keys:,} keys")
        timings = measure(
            [
                _shard(keys, size, slides=max(20, 20_000 // keys)),
                _scalars("scalar amta", Amta, keys, size),
                _scalars("scalar amta, compiled, row by row", FastAmta, keys, size),
            ]
        )
        rows += [
            [keys, *_row(timings, name, "scalar amta")]
            for name in ("shard window", "scalar amta", "scalar amta, compiled, row by row")
        ]
    report.table(
        f"sum per key over {size} panes: key-slides per second",
        ["keys", "window", "key-slides/s", "lowest", "highest", "of scalar amta"],
        rows,
    )
    ratio = timings.ratio("shard window", "scalar amta")
    report.claim(
        f"shard window at {KEYS[-1]:,} keys",
        ratio.median,
        50,
        "one scalar AMTA per key in pure Python",
        spread=ratio.range,
        unit="x",
    )


def _shard(keys: int, size: int, slides: int) -> Alternative:
    window = ShardWindow({"total": (m.sum, "value")}, size=size, slide=1)
    names = np.arange(keys)
    values = SERIES[:keys]
    now = 0

    def slide(count: int) -> None:
        nonlocal now
        for _ in range(count):
            window.add(np.full(keys, now), names, value=values)
            now += 1
            for emission in window.advance(now):
                emission["total"]

    slide(2 * size)
    return Alternative("shard window", lambda: slide(slides), operations=keys * slides)


def _scalars(
    name: str, make: Callable[[Monoid[Any, Any, Any]], Any], keys: int, size: int
) -> Alternative:
    windows = [make(m.sum) for _ in range(keys)]
    for window in windows:
        for value in SERIES[:size].tolist():
            window.insert(value)
    values = SERIES[:keys].tolist()
    slides = max(1, 10_000 // keys)

    def slide() -> None:
        for _ in range(slides):
            for window, value in zip(windows, values, strict=True):
                window.insert(value)
                window.evict()
                window.result()

    return Alternative(name, slide, operations=keys * slides)


def _row(timings: Timings, name: str, peer: str) -> list[Any]:
    return [name, *_spread(timings.rate(name)), timings.ratio(name, peer).median]


def _slide_row(timings: Timings, name: str, peer: str) -> list[Any]:
    rate = timings.rate(name)
    return [name, *_spread(rate), 1e9 / rate.median, timings.ratio(name, peer).median]


def _spread(spread: Spread) -> tuple[float, float, float]:
    return (spread.median, spread.low, spread.high)
