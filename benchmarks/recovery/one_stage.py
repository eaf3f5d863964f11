"""One stage in the simulator: delay against process, and the interval of boundaries (Fig 5-7 and
Table 5.2 of the founding document)."""

from __future__ import annotations

from typing import Final

from benchmarks.recovery.outages import AVAILABLE, Outage, Outcome, Outcomes, claim_masked
from benchmarks.recovery.scale import Scale
from benchmarks.report import Report
from holdfast.pipeline.gates.order import Variant

__all__ = ["one_stage_outages", "report_one_stage"]

PROCESS = (Variant.PROCESS, Variant.PROCESS)
DELAY = (Variant.DELAY, Variant.DELAY)
DELAY_FIRST = (Variant.DELAY, Variant.PROCESS)
POLICIES: Final = {
    PROCESS: "process & process",
    DELAY: "delay & delay",
    DELAY_FIRST: "delay & process",
}
"""The document varies what is done in failure; what its one node did in correction is not told."""
FAILURE: Final = 5.0
WHOLE: Final = AVAILABLE * FAILURE
"""Rows of the other inputs in it."""
CALCULATION: Final = 0.35
"""Seconds that may come on top of D: for a bucket to end, and for what has piled up."""
Variants = tuple[Variant, Variant]

PUBLISHED_INTERVALS: Final = {0.05: 69, 0.1: 120, 0.15: 174, 0.2: 234, 0.25: 298, 0.3: 327}
"""Table 5.2: mean delay in ms."""


def one_stage_outages(scale: Scale) -> list[Outage]:
    return [*_policies(scale).values(), *_intervals(scale).values()]


def report_one_stage(report: Report, scale: Scale, outcomes: Outcomes) -> None:
    found = {key: outcomes[outage] for key, outage in _policies(scale).items()}
    _report_policies(report, scale, found)
    _claim_policies(report, found)
    _report_intervals(report, scale, outcomes)


def _policies(scale: Scale) -> dict[tuple[Variants, float], Outage]:
    return {
        (variants, delay): Outage(FAILURE, delay, *variants)
        for variants in POLICIES
        for delay in scale.delays
    }


def _report_policies(
    report: Report, scale: Scale, found: dict[tuple[Variants, float], Outcome]
) -> None:
    rows = []
    for delay in scale.delays:
        row: list[object] = [delay]
        for outcome in (found[variants, delay] for variants in POLICIES):
            row += [outcome.tentative, outcome.again, outcome.worst]
        masked = delay > FAILURE
        stated = "process: the whole failure's worth; delay: less in proportion to D"
        rows.append([*row, "no tentative" if masked else stated])
    each = ("tentative rows", "shown again after an UNDO", "worst s")
    report.table(
        f"one stage, a failure of {FAILURE:g} s, in which the other inputs have {WHOLE:g} rows: "
        "process against delay (Fig 5-7; published too: the worst delay of new rows is linear in "
        "D)",
        [
            "D s",
            *(f"{name}: {what}" for name in POLICIES.values() for what in each),
            "published",
        ],
        rows,
    )


def _claim_policies(report: Report, found: dict[tuple[Variants, float], Outcome]) -> None:
    claim_masked(
        report,
        f"tentative rows of a {FAILURE:g} s failure with a longer D",
        [outcome.tentative for (_, delay), outcome in found.items() if delay > FAILURE],
    )
    report.claim(
        "worst delay of new rows beyond D, one stage",
        max(outcome.worst - delay for (_, delay), outcome in found.items() if delay < FAILURE),
        CALCULATION,
        "Fig 5-7: linear in D",
        at_least=False,
        unit=" s",
    )
    early = [delay for variants, delay in found if variants == PROCESS and delay <= 4]
    report.claim(
        "tentative rows by process, furthest from the failure's worth",
        max(100 * abs(found[PROCESS, delay].tentative / WHOLE - 1) for delay in early),
        10,
        "Fig 5-7: about the full failure",
        at_least=False,
        unit=" %",
    )
    saved = {d: found[PROCESS, d].tentative - found[DELAY, d].tentative for d in early}
    report.claim(
        "tentative rows that delay & delay saves, furthest from D's worth",
        max(100 * abs(rows / AVAILABLE / delay - 1) for delay, rows in saved.items()),
        20,
        "Fig 5-7: in proportion to D",
        at_least=False,
        unit=" %",
    )


def _intervals(scale: Scale) -> dict[float, Outage]:
    return {interval: Outage(0, 2, size=interval, gap=0.007) for interval in scale.intervals}


def _report_intervals(report: Report, scale: Scale, outcomes: Outcomes) -> None:
    found = {interval: outcomes[outage] for interval, outage in _intervals(scale).items()}
    report.table(
        "delay by the interval of boundaries and buckets, nothing fails (Table 5.2; here a "
        "boundary comes at the end of its bucket and links take 2 ms, so rows wait half an "
        "interval on average)",
        ["interval ms", "mean ms", "worst ms", "published mean ms"],
        [
            [1e3 * interval, 1e3 * each.mean, 1e3 * each.worst, PUBLISHED_INTERVALS[interval]]
            for interval, each in found.items()
        ],
    )
    report.claim(
        "mean delay of a row, most, over the interval of boundaries",
        max(each.mean / interval for interval, each in found.items()),
        1,
        "Table 5.2: about the interval",
        at_least=False,
        unit=" times",
    )
