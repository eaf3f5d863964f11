"""Where load ends up, beside what the document says: figure 7-1 and table 7.1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.federation.scale import Scale
from benchmarks.report import Report
from holdfast.sim.federation.baselines import auction, optimum, overload
from holdfast.sim.federation.graphs import diameter, draw_graph
from holdfast.sim.federation.variants import VARIANTS, Convergence, Variant, converge, make_levels

__all__ = ["report_baselines", "report_placing"]

FIXED, RANGE, MIXED_FIXED, MIXED_RANGE = VARIANTS
PERCENTS = (50, 75, 125, 150)


@dataclass(frozen=True)
class Case:
    """Runs of one configuration with several seeds, and what is left of it."""

    variant: Variant
    contracts: int
    percent: int
    runs: tuple[Convergence, ...]

    @property
    def left(self) -> list[float]:
        """Per cent of tasks without a place, or of capacity that is not used."""
        name = "overload" if self.percent < 100 else "unused"
        return [100 * getattr(each, name) for each in self.runs]


PUBLISHED = {
    (FIXED, 2, 50): "about 5 on average",
    (FIXED, 5, 50): "below 1 in all runs",
    (FIXED, 8, 75): "2 at most",
    (FIXED, 4, 125): "below 5",
    (FIXED, 4, 150): "below 5",
    (FIXED, 5, 150): "below 1",
    (RANGE, 2, 50): "0 in all runs",
    (RANGE, 2, 75): "0 in all runs",
    (RANGE, 2, 125): "below 0.5",
    (RANGE, 2, 150): "below 0.5",
    (RANGE, 10, 150): "0",
    (MIXED_RANGE, 2, 50): "5 at most",
    (MIXED_RANGE, 2, 75): "5 at most",
    (MIXED_RANGE, 2, 125): "below 5",
    (MIXED_RANGE, 2, 150): "below 5",
}


def report_placing(report: Report, scale: Scale) -> None:
    cases = {}
    for variant, contracts, seeds in _plan(scale):
        report.progress(f"{variant.name}, {contracts} contracts or more, {seeds} seeds")
        for percent in PERCENTS:
            runs = tuple(
                converge(scale.size, contracts, percent, variant, seed)
                for seed in range(1, seeds + 1)
            )
            cases[variant, contracts, percent] = Case(variant, contracts, percent, runs)
    report.table(
        f"What is left with {scale.size} participants: % of tasks without a place (load 50, 75 %), "
        "% of capacity not used (125, 150 %); seeds from 1",
        ["contracts", "at least", "load %", "seeds", "least", "mean", "most", "published",
         "seconds", "messages/move", "tasks/move"],
        [_row(case) for case in cases.values()],
    )  # fmt: skip
    _claim(report, cases)
    _claim_graphs(report, scale)
    _report_graphs(report, scale)


def _plan(scale: Scale) -> Iterator[tuple[Variant, int, int]]:
    for contracts in (2, 4, 5, 8, 10):
        yield FIXED, contracts, scale.fixed_seeds
    yield RANGE, 2, scale.range_seeds
    for contracts in scale.many:
        yield RANGE, contracts, scale.mixed_seeds
    for variant in (MIXED_FIXED, MIXED_RANGE):
        for contracts in (2, *scale.many):
            yield variant, contracts, scale.mixed_seeds


def _row(case: Case) -> list[object]:
    left = case.left
    deals = sum(each.counts.deals for each in case.runs)
    messages = sum(each.counts.messages for each in case.runs)
    tasks = sum(each.counts.tasks for each in case.runs)
    return [
        case.variant.name,
        case.contracts,
        case.percent,
        len(left),
        min(left),
        sum(left) / len(left),
        max(left),
        PUBLISHED.get((case.variant, case.contracts, case.percent), ""),
        max(each.seconds for each in case.runs),
        messages / deals,
        tasks / deals,
    ]


def _claim(report: Report, cases: dict[tuple[Variant, int, int], Case]) -> None:
    document = "the document, figure 7-1"

    def most(variant: Variant, contracts: int, *percents: int) -> float:
        return max(max(cases[variant, contracts, each].left) for each in percents)

    for contracts, at_most, said in ((2, 6, "about 5 %"), (5, 1, "below 1 % in all runs")):
        left = cases[FIXED, contracts, 50].left
        report.claim(
            f"fixed price, {contracts} contracts, 50 % load: tasks left on average",
            sum(left) / len(left),
            at_most,
            f"{document}: {said}",
            at_least=False,
            spread=(min(left), max(left)),
            unit=" %",
        )
    bounds: list[tuple[str, Variant, int, float, tuple[int, ...]]] = [
        ("range of 5 tasks, 2 contracts, underloaded: tasks left", RANGE, 2, 0, (50, 75)),
        ("fixed price, 8 contracts, 75 % load: tasks left", FIXED, 8, 2, (75,)),
        ("range, 2 contracts, overloaded: capacity not used", RANGE, 2, 0.5, (125, 150)),
        ("fixed price, 4 contracts, overloaded: capacity not used", FIXED, 4, 5, (125, 150)),
        ("fixed price, 5 contracts, 150 % load: capacity not used", FIXED, 5, 1, (150,)),
    ]
    for name, variant, contracts, bound, percents in bounds:
        figure = most(variant, contracts, *percents)
        report.claim(f"{name}, worst seed", figure, bound, document, at_least=False, unit=" %")
    ratios = [
        run.counts.messages / run.counts.deals for case in cases.values() for run in case.runs
    ]
    report.claim(
        "messages of a move, least of all runs", min(ratios), 3, "the document, property 4"
    )


def _claim_graphs(report: Report, scale: Scale) -> None:
    """The document's ten graphs all stay below 1 %: how often does one?"""
    report.progress(f"fixed price, 5 contracts, {scale.graphs} graphs")
    left = [
        100 * converge(scale.size, 5, 50, FIXED, seed).overload
        for seed in range(1, scale.graphs + 1)
    ]
    report.claim(
        f"of {scale.graphs} graphs with 5 fixed-price contracts, 50 % load: those with less than "
        "1 % of tasks left",
        100 * sum(each < 1 for each in left) / len(left),
        95,
        "the document, figure 7-1: all of its 10",
        spread=(100 - max(left), 100 - min(left)),
        unit=" %",
    )


def _report_graphs(report: Report, scale: Scale) -> None:
    published = {2: "10 to 14", 5: "6", 10: "4 to 5"}
    rows = []
    for contracts, said in published.items():
        found = [
            diameter(scale.size, draw_graph(scale.size, contracts, np.random.default_rng(seed)))
            for seed in range(1, 4)
        ]
        rows.append([contracts, min(found), max(found), said])
    report.table("Diameters of contract graphs", ["contracts", "least", "most", "published"], rows)


def report_baselines(report: Report, scale: Scale) -> None:
    """The same loads by other means: nothing, contracts, a global auction, one who sees all."""
    rows: list[list[object]] = []
    said: dict[str, int] = {}
    for percent in (50, 75):
        levels, limits = make_levels(scale.size, 5, percent, FIXED, 1)
        loads = levels.loads.copy()
        rows.append(["no contracts", percent, 100 * overload(loads, limits), 0, 0, 0, 0.0])
        for variant in (FIXED, RANGE):
            run = converge(scale.size, 5, percent, variant, 1)
            counts = run.counts
            said.setdefault(variant.name, counts.messages)
            rows.append(
                [f"5 contracts, {variant.name}", percent, 100 * run.overload, counts.tasks,
                 counts.deals, counts.messages, counts.messages / counts.deals]
            )  # fmt: skip
        for name, outcome in (
            ("global auction", auction(loads, np.random.default_rng(1))),
            ("central optimum", optimum(loads, limits)),
        ):
            said.setdefault(name, outcome.messages)
            left = 100 * overload(outcome.loads, limits)
            rows.append(
                [name, percent, left, outcome.tasks, outcome.deals, outcome.messages,
                 outcome.messages / outcome.deals]
            )  # fmt: skip
    report.table(
        f"Ways to place the same load of {scale.size} participants, seed 1",
        ["way", "load %", "% of tasks left", "tasks moved", "moves", "messages", "messages/move"],
        rows,
    )
    report.claim(
        "messages of a global auction for those of 5 fixed-price contracts, 50 % load",
        said["global auction"] / said[FIXED.name],
        10,
        "5 fixed-price contracts",
        unit=" times",
    )
