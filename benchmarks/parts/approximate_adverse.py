"""Approximate windows on series that do not suit them, beside one that does.

`approximate` has the founding document's settings on a stream that folds well. Here is the rest: a
daily cycle, a heavy tail, levels that rise or fall, hops that change, policies that cannot be
followed exactly. Told are footprint, errors, and how often a window did not vouch for its answer.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from random import Random
from typing import Any, Final

from benchmarks.approximate.adverse import SERIES, make
from benchmarks.report import Report
from holdfast.windows import Monoid, Policy, policies
from holdfast.windows import monoids as m
from holdfast.windows.approximation import (
    Method,
    Shadow,
    ShadowReport,
    block_maxima,
    hops,
    max_error,
    max_leaves,
)

WINDOW: Final = 10_000
SMOKE_WINDOW: Final = 300
LENGTH: Final = 10
"""Updates of a series, in windows."""
COLUMNS: Final = [
    "steady footprint %",
    "with warm-up %",
    "exact answers %",
    "99.9 % of errors %",
    "largest error %",
    "bound exceeded %",
    "not guaranteed %",
    "broken",
]
METHODS: Final = (
    ("mean", "max_error(1 %)"),
    ("mean", "a hundredth of the leaves"),
    ("max", "blocks of a hundredth"),
    ("max", "blocks of a thousandth"),
)
HOPS: Final = (
    "always a third",
    "normal, a third, deviation 0.2 %",
    "the same, confidence 0.95",
    "a third, then a fifth",
    "a fifth, then a third",
    "of any size",
)
POLICIES: Final = ("last", "hopping by a hundredth", "value_bound", "hopping by worth")


@dataclass(frozen=True)
class Run:
    """One setting over one series; plain data, so that another process can run it."""

    table: str
    setting: str
    series: str
    window: int


def run(report: Report) -> None:
    window = SMOKE_WINDOW if os.environ.get("HOLDFAST_BENCH") == "smoke" else WINDOW
    runs = [
        *(Run(f"{of}, {name}", name, series, window) for of, name in METHODS for series in SERIES),
        *(Run("hops", name, SERIES[0], window) for name in HOPS),
        *(Run("policies", name, SERIES[0], window) for name in POLICIES),
    ]
    report.progress(f"{len(runs)} settings, two at a time")
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        found = dict(zip(runs, pool.map(_measure, runs), strict=True))
    updates = LENGTH * window
    for table in dict.fromkeys(each.table for each in runs):
        rows = [
            [each.series if "," in table else each.setting, *outcome]
            for each, outcome in found.items()
            if each.table == table
        ]
        report.table(_title(table, window, updates), ["case", *COLUMNS], rows)
    report.claim(
        "answers outside their bound that were guaranteed",
        sum(outcome[-1] for outcome in found.values() if outcome[-1] != "-"),
        0,
        "the exact window",
        at_least=False,
    )


def _title(table: str, window: int, updates: int) -> str:
    if table == "hops":
        return (
            f"mean of a window that grows to {window // 3:,} and hops, hops(), {updates:,} updates"
        )
    if table == "policies":
        return f"sum, max_error of 100 averages, policies over {window:,}, {updates:,} updates"
    return f"{table}, the last {window:,}, {updates:,} updates"


def _measure(run: Run) -> list[Any]:
    return _row(_shadow(run))


def _row(report: ShadowReport) -> list[Any]:
    steady = report.steady_footprint
    return [
        "-" if steady is None else 100 * steady,
        100 * report.footprint,
        100 * report.exact_share,
        100 * report.errors[0.999],
        100 * report.errors[1.0],
        "-" if report.exceeded is None else 100 * report.exceeded / report.updates,
        "-" if report.not_guaranteed is None else 100 * report.not_guaranteed / report.updates,
        "-" if report.broken is None else report.broken,
    ]


def _shadow(run: Run) -> ShadowReport:
    values = make(run.series, LENGTH * run.window)
    if run.table == "hops":
        return _hopped(run, values)
    if run.table == "policies":
        return _fed(m.sum, max_error(absolute=100 * 100.0), _policy(run), values)
    monoid, method = _of(run)
    return _fed(monoid, method, policies.last(run.window), values)


def _fed(
    monoid: Monoid[Any, Any, Any], method: Method, policy: Policy, values: Iterable[float]
) -> ShadowReport:
    shadow = Shadow(monoid, method, policy)
    shadow.feed(values)
    return shadow.report()


def _of(run: Run) -> tuple[Monoid[Any, Any, Any], Method]:
    window = run.window
    chosen: dict[str, tuple[Monoid[Any, Any, Any], Method]] = {
        "max_error(1 %)": (m.mean, max_error("1%")),
        "a hundredth of the leaves": (m.mean, max_leaves(max(window // 100, 3))),
        "blocks of a hundredth": (m.max, block_maxima(max(window // 100, 1))),
        "blocks of a thousandth": (m.max, block_maxima(max(window // 1_000, 1))),
    }
    return chosen[run.setting]


def _policy(run: Run) -> Policy:
    window = run.window
    chosen = {
        "last": policies.last(window),
        "hopping by a hundredth": policies.hopping(window, max(window // 100, 1)),
        "value_bound": policies.value_bound(100.0 * window),
        "hopping by worth": Policy(
            eviction_invariant=lambda candidate, _after, before: (
                before.size > window and candidate.value <= 50 * 100.0
            )
        ),
    }
    return chosen[run.setting]


class _Hops:
    """The size of the hop that is due: a policy sees only the window, so this counts for it."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self.done = 0

    @property
    def due(self) -> int:
        return self._sizes[min(self.done, len(self._sizes) - 1)]


def _hopped(run: Run, values: Sequence[float]) -> ShadowReport:
    """The window grows to a third of the others, so that there are hops enough to learn from."""
    full, random = run.window // 3, Random(7)
    third, fifth = full // 3, full // 5
    half = LENGTH * run.window // 2
    sizes: dict[str, list[int]] = {
        "always a third": [third],
        "normal, a third, deviation 0.2 %": [
            round(random.gauss(third, max(full * 0.002, 1))) for _ in range(200)
        ],
        "a third, then a fifth": [third] * (half // third) + [fifth],
        "a fifth, then a third": [fifth] * (half // fifth) + [third],
        "of any size": [random.randrange(1, full) for _ in range(400)],
    }
    name = run.setting
    method = hops(0.95) if name == "the same, confidence 0.95" else hops()
    if name == "the same, confidence 0.95":
        name = "normal, a third, deviation 0.2 %"
    clock = _Hops(sizes[name])
    policy = Policy(
        eviction_invariant=lambda candidate, _after, before: (
            before.size > full and candidate.size <= clock.due
        )
    )
    shadow = Shadow(m.mean, method, policy)
    for value in values:
        held = len(shadow.exact)
        shadow.insert(value)
        clock.done += len(shadow.exact) <= held
    return shadow.report()
