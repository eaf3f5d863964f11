"""Loads that come and go, and very many participants: figure 7-5, and how costs grow."""

from __future__ import annotations

import math
from time import perf_counter

from benchmarks.federation.scale import Scale
from benchmarks.report import Report
from holdfast.sim.federation.baselines import overload
from holdfast.sim.federation.levels import SLOTS
from holdfast.sim.federation.variants import VARIANTS, make_levels, vary

__all__ = ["report_growth", "report_varying"]

FIXED, RANGE = VARIANTS[:2]


def report_varying(report: Report, scale: Scale) -> None:
    rows, fast = [], []
    for percent in scale.percents:
        for variant in (FIXED, RANGE):
            report.progress(f"loads that vary: {variant.name}, {percent} %")
            runs = [
                vary(percent, variant, seed, size=scale.varying_size, phases=scale.phases)
                for seed in range(1, scale.varying_seeds + 1)
            ]
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
    report.claim(
        "of a load that changes everywhere every second, moved, worst configuration and seed",
        max(fast),
        7,
        "the document, figure 7-5: below 6 %",
        at_least=False,
        spread=(min(fast), max(fast)),
        unit=" %",
    )


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
