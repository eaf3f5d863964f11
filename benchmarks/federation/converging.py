"""How soon load ends up where it does: figures 7-2, 7-3 and 7-4."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.federation.beside import Beside
from benchmarks.federation.running import Case, Job, run_cases
from benchmarks.federation.scale import Scale
from benchmarks.report import Report
from simulator.federation.variants import VARIANTS, Second, progress

__all__ = ["report_converging", "report_counters", "report_course"]

FIXED, RANGE, MIXED_FIXED, MIXED_RANGE = VARIANTS
EARLY = 5
"""Seconds: with fixed prices all is over by then, says the document."""
LOOKS = (1, 2, 3, 5, 10, 20, 50, 100, 200)


def report_converging(report: Report, cases: Mapping[Job, Case], beside: Beside) -> None:
    """Figure 7-3: lightly loaded and heavily overloaded, by the number of contracts."""
    shown = {job: case for job, case in cases.items() if job.percent in (50, 150)}
    report.table(
        "Seconds until nothing moves any more, and until 95 % of the benefit: of the tasks that "
        "get a place (50 % load), of the capacity that is used (150 %)",
        ["contracts", "at least", "load %", "seeds", "mean s", "worst s", "95 % after s",
         "% of the time"],
        [
            [job.variant.name, job.contracts, job.percent, len(case.runs), _mean(case.seconds),
             max(case.seconds), _mean(case.soon), 100 * _mean(case.soon) / _mean(case.seconds)]
            for job, case in shown.items()
        ],
    )  # fmt: skip
    fixed = {job: case for job, case in cases.items() if job.variant is FIXED}
    longest = [max(case.seconds) for case in fixed.values()]
    beside.add(
        "figure 7-3",
        "fixed price, any load and number of contracts: seconds until nothing moves, worst run",
        max(longest), 5, "always within five seconds", spread=(min(longest), max(longest)),
        unit=" s",
    )  # fmt: skip
    for variant in (RANGE, MIXED_RANGE):
        shares = [
            100 * _mean(case.soon) / _mean(case.seconds)
            for job, case in shown.items()
            if job.variant is variant
        ]
        beside.add(
            "figure 7-3",
            f"{variant.name}: 95 % of the benefit is there after so much of the time, on average "
            "of all loads and numbers of contracts",
            _mean(shares), 15, "the first 15 % or less", spread=(min(shares), max(shares)),
        )  # fmt: skip
    for percent in (50, 150):
        means = [
            _mean(case.seconds)
            for job, case in shown.items()
            if job.variant is MIXED_FIXED and job.percent == percent and job.contracts > 1
        ]
        beside.add(
            "figure 7-3",
            f"different capacities, fixed price, {percent} % load: slowest for fastest of 2 to 10 "
            "contracts",
            max(means) / min(means), 2,
            "approximately constant (taken as: within a factor of two)", unit=" times",
        )  # fmt: skip


def report_counters(
    report: Report, scale: Scale, cases: Mapping[Job, Case], beside: Beside
) -> None:
    """Figure 7-4: counter-offers above the valuation."""
    report.progress("counter-offers above the valuation")
    jobs = {
        Job(RANGE, contracts, percent, above): scale.mixed_seeds
        for contracts in scale.contracts
        for percent in (50, 150)
        for above in (1, 2)
    }
    higher = run_cases(scale.size, jobs)
    rows, ratios, differences = [], [], []
    for contracts in scale.contracts:
        for percent in (50, 150):
            plain = cases[Job(RANGE, contracts, percent)]
            some = [higher[Job(RANGE, contracts, percent, above)] for above in (1, 2)]
            # The same graphs and loads.
            base = plain.seconds[: scale.mixed_seeds]
            times = [_mean(each.seconds) for each in some]
            left = [_mean(each.left) for each in some]
            was = _mean(plain.left[: scale.mixed_seeds])
            rows.append([contracts, percent, scale.mixed_seeds, _mean(base), *times, was, *left])
            if contracts >= 3:
                ratios += [each / _mean(base) for each in times]
            differences += [abs(each - was) for each in left]
    report.table(
        "Counter-offers of the valuation, and of one and two tasks above it (range of 5 tasks): "
        "mean seconds until nothing moves, and % of tasks or of capacity left",
        ["at least", "load %", "seeds", "+0, s", "+1, s", "+2, s", "+0, %", "+1, %", "+2, %"],
        rows,
    )
    if ratios:
        far = max(ratios, key=lambda each: abs(each - 1))
        beside.add(
            "figure 7-4",
            "counter-offers 1 or 2 tasks above the valuation, 3 contracts or more: time to "
            "converge, furthest from that without, in % of it",
            100 * abs(far - 1), 10, "almost no impact (taken as: within 10 %)",
            spread=(100 * (min(ratios) - 1), 100 * (max(ratios) - 1)),
        )  # fmt: skip
        beside.add(
            "figure 7-4", "the same: most that another share is left in the end, in points",
            max(differences), 0.1, "the same final load distribution (taken as: within 0.1)",
            unit="",
        )  # fmt: skip


def report_course(report: Report, scale: Scale, beside: Beside) -> None:
    """Figure 7-2: 75 % load, three contracts, one graph."""
    rows: list[list[object]] = []
    courses = {each: progress(scale.size, 3, 75, each, 1) for each in VARIANTS}
    for variant, course in courses.items():
        before = 0
        for until in [*(each for each in LOOKS if each < len(course)), len(course)]:
            part = course[before:until]
            tasks, deals = sum(p.tasks for p in part), sum(p.deals for p in part)
            rows.append([variant.name, until, tasks, deals, tasks / max(deals, 1), part[-1].left])
            before = until
    report.table(
        "How load gets there: 75 % load, 3 contracts, seed 1",
        ["contracts", "until s", "tasks moved", "moves", "tasks/move", "tasks left above capacity"],
        rows,
    )
    late = courses[RANGE][10:]
    if late:
        beside.add(
            "figure 7-2", "range, after 10 s: tasks of a move on average", _each(late), 1,
            "a single task each", unit="",
        )  # fmt: skip
        mixed = courses[MIXED_RANGE][10:]
        beside.add(
            "figure 7-2", "different capacities, range, after 10 s: tasks of a move on average",
            _each(mixed), 1, "groups of tasks, not one at a time", at_least=True, unit="",
        )  # fmt: skip
    early = sum(each.tasks for each in courses[FIXED][:EARLY])
    every = sum(each.tasks for each in courses[FIXED])
    beside.add(
        "figure 7-2", f"fixed price: share of all tasks moved that move in the first {EARLY} s",
        100 * early / every, 100, "all movements within the first few seconds", at_least=True,
    )  # fmt: skip


def _each(course: list[Second]) -> float:
    return sum(each.tasks for each in course) / max(1, sum(each.deals for each in course))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
