"""Where load ends up, beside what the document says: figure 7-1 and table 7.1."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.federation.beside import Beside
from benchmarks.federation.running import Case, Job, run_cases
from benchmarks.federation.scale import Scale
from benchmarks.report import Report
from simulator.federation.baselines import auction, optimum, overload
from simulator.federation.graphs import diameter, draw_graph
from simulator.federation.variants import VARIANTS, Variant, converge, make_levels

__all__ = ["report_baselines", "report_placing"]

FIXED, RANGE, MIXED_FIXED, MIXED_RANGE = VARIANTS
PERCENTS = (50, 75, 125, 150)
MANY = 100
"""So many contracts are more than anybody has."""


def report_placing(report: Report, scale: Scale, beside: Beside) -> dict[Job, Case]:
    """All configurations that are run, for those who look at other things in them."""
    seeds = _plan(scale)
    report.progress(f"{sum(seeds.values()):,} runs with {scale.size} participants")
    cases = run_cases(scale.size, seeds)
    report.table(
        f"What is left with {scale.size} participants: % of tasks without a place (load 50, 75 %), "
        "% of capacity not used (125, 150 %); seeds from 1",
        ["contracts", "at least", "load %", "seeds", "least", "mean", "most",
         "seconds", "messages/move", "tasks/move"],
        [_row(case) for case in cases.values()],
    )  # fmt: skip
    _compare(beside, cases)
    ratios = [
        run.counts.messages / run.counts.deals for case in cases.values() for run in case.runs
    ]
    beside.add(
        "property 4", "messages of a move, least of all runs", min(ratios), 3, "3 at least",
        at_least=True, unit="",
    )  # fmt: skip
    _compare_graphs(report, scale, beside)
    _report_graphs(report, scale)
    return cases


def _plan(scale: Scale) -> dict[Job, int]:
    """How many seeds of each. The document has ten graphs of each; where it says "all" or "always",
    so have we."""
    seeds: dict[Job, int] = {}
    for contracts in scale.contracts:
        for percent in PERCENTS:
            seeds[Job(FIXED, contracts, percent)] = scale.fixed_seeds
        for variant in (RANGE, MIXED_FIXED, MIXED_RANGE):
            for percent in (50, 150):
                seeds[Job(variant, contracts, percent)] = scale.mixed_seeds
            if contracts in (2, 5, 10):
                for percent in (75, 125):
                    seeds[Job(variant, contracts, percent)] = scale.mixed_seeds
    for percent in PERCENTS:
        seeds[Job(RANGE, 2, percent)] = scale.fixed_seeds
    for variant, contracts, percent in ((RANGE, 8, 150), (MIXED_RANGE, 6, 50)):
        if contracts in scale.contracts:
            seeds[Job(variant, contracts, percent)] = scale.fixed_seeds
    return seeds


def _row(case: Case) -> list[object]:
    left = case.left
    deals = sum(each.counts.deals for each in case.runs)
    messages = sum(each.counts.messages for each in case.runs)
    tasks = sum(each.counts.tasks for each in case.runs)
    return [
        case.job.variant.name,
        case.job.contracts,
        case.job.percent,
        len(left),
        min(left),
        case.mean,
        max(left),
        max(case.seconds),
        messages / deals,
        tasks / deals,
    ]


def _compare(beside: Beside, cases: Mapping[Job, Case]) -> None:
    def worst(
        name: str,
        variant: Variant,
        contracts: tuple[int, int],
        percents: tuple[int, ...],
        bound: float,
        said: str,
    ) -> None:
        """`contracts`: at least and at most so many."""
        found = [
            case
            for job, case in cases.items()
            if job.variant is variant
            and contracts[0] <= job.contracts <= contracts[1]
            and job.percent in percents
        ]
        left = [each for case in found for each in case.left]
        if left:
            beside.add(
                "figure 7-1", f"{name}, worst of {len(left)} runs", max(left), bound, said,
                spread=(min(left), max(left)),
            )  # fmt: skip

    two = cases[Job(FIXED, 2, 50)]
    beside.add(
        "figure 7-1", "fixed price, 2 contracts, 50 % load: tasks left on average", two.mean, 5,
        "5 % on average", spread=(min(two.left), max(two.left)),
    )  # fmt: skip
    worst(
        "fixed price, 5 contracts, 50 % load: tasks left",
        FIXED, (5, 5), (50,), 1, "below 1 % for all simulated configurations",
    )  # fmt: skip
    worst(
        "fixed price, 8 contracts, 75 % load: tasks left",
        FIXED, (8, 8), (75,), 2, "2 % at most in all configurations",
    )  # fmt: skip
    worst(
        "fixed price, 4 contracts, overloaded: capacity not used",
        FIXED, (4, 4), (125, 150), 5, "always above 95 % used",
    )  # fmt: skip
    worst(
        "fixed price, 5 contracts, 150 % load: capacity not used",
        FIXED, (5, 5), (150,), 1, "above 99 % used",
    )  # fmt: skip
    worst(
        "range of 5 tasks, 2 contracts, underloaded: tasks left",
        RANGE, (2, 2), (50, 75), 0, "acceptable in all ten topologies",
    )  # fmt: skip
    worst(
        "range, 2 contracts, overloaded: capacity not used",
        RANGE, (2, 2), (125, 150), 0.5, "below 0.5 %",
    )  # fmt: skip
    worst(
        "range, 8 contracts, 150 % load: capacity not used",
        RANGE, (8, 8), (150,), 0, "8 contracts suffice in all simulated topologies",
    )  # fmt: skip
    worst(
        "different capacities, range, 2 contracts, underloaded: tasks left",
        MIXED_RANGE, (2, 2), (50, 75), 5, "all but 5 % placed",
    )  # fmt: skip
    worst(
        "different capacities, range, 2 contracts, overloaded: capacity not used",
        MIXED_RANGE, (2, 2), (125, 150), 5, "above 95 % used",
    )  # fmt: skip
    worst(
        "different capacities, range, 6 contracts or more, 50 % load: tasks left",
        MIXED_RANGE, (6, MANY), (50,), 0, "6 contracts: always acceptable when lightly loaded",
    )  # fmt: skip
    gains = [
        cases[Job(FIXED, each, 50)].mean - cases[Job(MIXED_FIXED, each, 50)].mean
        for each in range(2, 8)
        if Job(MIXED_FIXED, each, 50) in cases
    ]
    beside.add(
        "figure 7-1",
        "fixed price, 2 to 7 contracts, 50 % load: fewer tasks left with different capacities, "
        "on average, in points",
        sum(gains) / len(gains), 0, "up to 2 % more tasks placed", at_least=True,
        spread=(min(gains), max(gains)), unit="",
    )  # fmt: skip


def _compare_graphs(report: Report, scale: Scale, beside: Beside) -> None:
    """The document's ten graphs all stay below 1 %: how often does one?"""
    report.progress(f"fixed price, 5 contracts, {scale.graphs} graphs")
    job = Job(FIXED, 5, 50)
    left = run_cases(scale.size, {job: scale.graphs})[job].left
    beside.add(
        "figure 7-1",
        f"of {scale.graphs} graphs with 5 fixed-price contracts, 50 % load: those with less than "
        "1 % of tasks left",
        100 * sum(each < 1 for each in left) / len(left),
        100,
        "all of its 10",
        at_least=True,
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
