"""Loads that come and go, and very many participants: figures 7-5 and 7-6, and how costs grow."""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from time import perf_counter

from benchmarks.federation.beside import Beside
from benchmarks.federation.scale import Scale
from benchmarks.report import Report
from simulator.federation.baselines import overload
from simulator.federation.levels import SLOTS
from simulator.federation.variants import VARIANTS, Phase, Variant, make_levels, vary

__all__ = ["report_cancelling", "report_growth", "report_varying"]

FIXED, RANGE = VARIANTS[:2]


def report_varying(report: Report, scale: Scale, beside: Beside) -> None:
    rows, fast = [], []
    for percent in scale.percents:
        for variant in (FIXED, RANGE):
            report.progress(f"loads that vary: {variant.name}, {percent} %")
            runs = _vary(scale, percent, variant)
            for phases in zip(*runs, strict=True):
                shares = [100 * phase.share for phase in phases]
                varied, moved = sum(p.varied for p in phases), sum(p.moved for p in phases)
                rows.append(
                    [variant.name, percent, phases[0].mean, varied, moved,
                     100 * moved / varied, min(shares), max(shares)]
                )  # fmt: skip
            fast += [100 * phases[-1].share for phases in runs]
    report.table(
        f"Tasks that come and go at {scale.varying_size} participants with 10 contracts, "
        f"{scale.varying_seeds} seeds",
        ["contracts", "load %", "mean s", "tasks in and out", "tasks moved", "% moved", "least",
         "most"],
        rows,
    )  # fmt: skip
    beside.add(
        "figure 7-5",
        "of a load that changes everywhere every second, moved, worst configuration and seed",
        max(fast), 6, "below 6 % (section 7.5)", spread=(min(fast), max(fast)),
    )  # fmt: skip


def report_cancelling(report: Report, scale: Scale, beside: Beside) -> None:
    """Figure 7-6: nobody has too much at the start, and a move may be cancelled after a second."""
    rows: list[list[object]] = []
    shares: list[float] = []
    more: list[float] = []
    for percent in (50, 75):
        for variant in (FIXED, RANGE):
            report.progress(f"moves that may be cancelled: {variant.name}, {percent} %")
            for_good = _vary(scale, percent, variant, acceptable=True)
            limited = _vary(scale, percent, variant, acceptable=True, duration=1.0)
            for number in range(len(scale.phases)):
                stay, go = ([run[number] for run in runs] for runs in (for_good, limited))
                varied, moved = sum(p.varied for p in go), sum(p.moved for p in go)
                back, kept = sum(p.returned for p in go), sum(p.moved for p in stay)
                kept_share = 100 * kept / sum(p.varied for p in stay)
                share = 100 * moved / varied
                rows.append(
                    [variant.name, percent, go[0].mean, varied, moved, back, share, kept_share]
                )
                shares.append(share)
                more.append(share - kept_share)
    report.table(
        f"The same from a start where nobody has too much; a move may be cancelled after 1 s; "
        f"{scale.varying_seeds} seeds",
        ["contracts", "load %", "mean s", "tasks in and out", "tasks moved", "of them back",
         "% moved", "% moved if moves are for good"],
        rows,
    )  # fmt: skip
    beside.add(
        "figure 7-6", "of loads that change, moved, where moves may be cancelled: worst phase",
        max(shares), 50, "most variations absorbed (taken as: more than half)",
        spread=(min(shares), max(shares)),
    )  # fmt: skip
    beside.add(
        "figure 7-6", "moves that may be cancelled against moves for good: moved more, in points, "
        "least of all phases",
        min(more), 0, "more re-allocations", at_least=True, spread=(min(more), max(more)), unit="",
    )  # fmt: skip


def _vary(
    scale: Scale,
    percent: int,
    variant: Variant,
    *,
    acceptable: bool = False,
    duration: float | None = None,
) -> list[list[Phase]]:
    """A run of each seed, on all cores."""
    run = partial(
        vary,
        percent,
        variant,
        size=scale.varying_size,
        phases=scale.phases,
        acceptable=acceptable,
        duration=duration,
    )
    with ProcessPoolExecutor() as pool:
        return list(pool.map(run, range(1, scale.varying_seeds + 1)))


def report_growth(report: Report, scale: Scale) -> None:
    rows: list[list[object]] = []
    took: dict[tuple[str, int], float] = {}
    for variant in (FIXED, RANGE):
        for size in scale.sizes:
            report.progress(f"{size:,} participants, {variant.name}")
            before = perf_counter()
            levels, limits = make_levels(size, 5, 75, variant, 1)
            drawn = perf_counter()
            levels.run()
            took[variant.name, size] = perf_counter() - before
            rows.append(
                [variant.name, size, drawn - before, perf_counter() - drawn, levels.slot / SLOTS,
                 levels.counts.messages / size, levels.counts.tasks / size,
                 100 * overload(levels.loads, limits)]
            )  # fmt: skip
    report.table(
        "How the simulation grows: 5 contracts, 75 % load, seed 1",
        ["contracts", "participants", "s to draw", "s to run", "simulated s",
         "messages each", "tasks moved each", "% of tasks left"],
        rows,
    )  # fmt: skip
    smaller, largest = scale.sizes[-2:]
    last, before_last = took[RANGE.name, largest], took[RANGE.name, smaller]
    report.claim(
        f"seconds to simulate {largest:,} participants, range of 5 tasks",
        last,
        300,
        "five minutes",
        at_least=False,
        unit=" s",
    )
    report.claim(
        "time grows by this power of participants",
        math.log(last / before_last) / math.log(largest / smaller),
        1.2,
        f"{smaller:,} participants",
        at_least=False,
    )
