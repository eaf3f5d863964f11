"""Chains of stages in the simulator: how delays add up and where to spend them (Fig 5-10 to 5-15 of
the founding document)."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from benchmarks.recovery.outages import ALL, AVAILABLE, Outage, Outcomes, claim_masked
from benchmarks.recovery.scale import Scale
from benchmarks.report import Report
from holdfast.pipeline.gates.order import Variant

__all__ = ["chain_outages", "report_chains"]

PROCESS, DELAY = Variant.PROCESS, Variant.DELAY
SHARE: Final = 2.0
"""D where each stage of four has its share of `max_delay`."""
MAX_DELAY: Final = 8.0
SHORT: Final = 5.0
"""A failure that a D of 6.5 s masks."""
BUSY: Final = 0.1
CALCULATION: Final = 0.25
"""Seconds that may come on top of a delay, for the stages to do what has piled up."""


def chain_outages(scale: Scale) -> list[Outage]:
    return [
        *_chains(scale).values(),
        *_usual(scale).values(),
        *_assignments(scale).values(),
    ]


def report_chains(report: Report, scale: Scale, outcomes: Outcomes) -> None:
    usual = {depth: outcomes[outage].worst for depth, outage in _usual(scale).items()}
    _report_delays(report, scale, usual, outcomes)
    _report_tentative(report, scale, outcomes)
    _report_assignments(report, scale, usual, outcomes)


def _chain(failure: float, delay: float, variant: Variant, depth: int) -> Outage:
    return Outage(failure, delay, variant, variant, depth=depth, replicas=2, busy=BUSY)


def _chains(scale: Scale) -> dict[tuple[Variant, int, float], Outage]:
    return {
        (variant, depth, failure): _chain(failure, SHARE, variant, depth)
        for variant in (DELAY, PROCESS)
        for depth in scale.depths
        for failure in scale.chain_failures
    }


def _usual(scale: Scale) -> dict[int, Outage]:
    """Nothing fails."""
    return {depth: _chain(0, SHARE, PROCESS, depth) for depth in scale.depths}


def _report_delays(
    report: Report, scale: Scale, usual: dict[int, float], outcomes: Outcomes
) -> None:
    chains, failure = _chains(scale), scale.chain_latency

    def worst(variant: Variant, depth: int) -> float:
        return outcomes[chains[variant, depth, failure]].worst

    report.table(
        f"chains of pairs, D {SHARE:g} s, a failure of {failure:g} s: worst delay of new rows, s "
        "(Fig 5-10; published: both within 2 s a stage; delay & delay adds D for each stage, "
        "process & process stays close to one D, with some 300 ms more for each stage; here the "
        "gates share one clock for each bucket, so that process & process adds calculation only)",
        ["stages", "nothing fails", "delay & delay", "process & process"],
        [[n, usual[n], worst(DELAY, n), worst(PROCESS, n)] for n in scale.depths],
    )
    report.claim(
        "worst delay of new rows, process & process, beyond D and the usual, any depth",
        max(worst(PROCESS, n) - usual[n] - SHARE for n in scale.depths),
        CALCULATION,
        "Fig 5-10: close to one D",
        at_least=False,
        unit=" s",
    )
    report.claim(
        "worst delay of new rows, delay & delay, beyond D for each stage and the usual",
        max(worst(DELAY, n) - usual[n] - n * SHARE for n in scale.depths),
        CALCULATION,
        "Fig 5-10: within 2 s a stage",
        at_least=False,
        unit=" s",
    )
    report.claim(
        "what each stage adds to the worst delay, delay & delay, least",
        min(worst(DELAY, n) - worst(DELAY, m) for m, n in pairwise(scale.depths)),
        0.9 * SHARE,
        "Fig 5-10: adds D for each stage",
        unit=" s",
    )


def _report_tentative(report: Report, scale: Scale, outcomes: Outcomes) -> None:
    chains, failures = _chains(scale), scale.chain_failures

    def rows(variant: Variant, depth: int, failure: float) -> int:
        return outcomes[chains[variant, depth, failure]].tentative

    def saved(depth: int, failure: float) -> int:
        return rows(PROCESS, depth, failure) - rows(DELAY, depth, failure)

    report.table(
        f"chains of pairs, D {SHARE:g} s: tentative rows (Fig 5-11, 5-13; published: process & "
        "process rises slightly with depth; here it is the same at all depths)",
        ["stages", *(f"{name}, {f:g} s" for f in failures for name in ("delay", "process"))],
        [
            [n, *(rows(variant, n, f) for f in failures for variant in (DELAY, PROCESS))]
            for n in scale.depths
        ],
    )
    report.table(
        "the same: rows that delay & delay saves, by length of the failure (published: the whole "
        "delay of the chain, but at 60 s only the last stage's D). Its worth is that of two inputs "
        "during the failure, of all three while it is corrected",
        ["stages", "worth of two", "of three", *(f"{failure:g} s" for failure in failures)],
        [
            [n, n * SHARE * AVAILABLE, n * SHARE * ALL, *(saved(n, f) for f in failures)]
            for n in scale.depths
        ],
    )


def _assignments(scale: Scale) -> dict[tuple[str, float], Outage]:
    given = {
        "D 2 s, delay & delay": (SHARE, DELAY),
        "D 2 s, process & process": (SHARE, PROCESS),
        "D 6.5 s, process & process": (6.5, PROCESS),
        "D 7.9 s, process & process": (7.9, PROCESS),
    }
    return {
        (name, failure): _chain(failure, delay, variant, max(scale.depths))
        for name, (delay, variant) in given.items()
        for failure in scale.assigned_failures
    }


def _report_assignments(
    report: Report, scale: Scale, usual: dict[int, float], outcomes: Outcomes
) -> None:
    found = {key: outcomes[outage] for key, outage in _assignments(scale).items()}
    names = dict.fromkeys(name for name, _ in found)
    failures, depth = scale.assigned_failures, max(scale.depths)
    title = (
        f"a chain of {depth} with max_delay {MAX_DELAY:g} s, by length of the failure (Fig 5-14, "
        "5-15; published: all meet 8 s; 6.5 s, for queues form, masks a 5 s failure and is else as "
        "process & process; here nearly all of 8 s can be given to every gate, for they wait "
        "together): "
    )
    columns = ["at every gate", *(f"{failure:g} s" for failure in failures)]
    report.table(
        title + "tentative rows",
        columns,
        [[name, *(found[name, failure].tentative for failure in failures)] for name in names],
    )
    report.table(
        title + "worst delay of new rows, s",
        columns,
        [[name, *(found[name, failure].worst for failure in failures)] for name in names],
    )
    claim_masked(
        report,
        f"tentative rows of a {SHORT:g} s failure, chain of {depth}, D from 6.5 s",
        [
            outcome.tentative
            for (name, failure), outcome in found.items()
            if failure == SHORT and not name.startswith("D 2 s")
        ],
    )
    report.claim(
        f"worst delay of new rows beyond the usual, chain of {depth}, all assignments",
        max(outcome.worst for outcome in found.values()) - usual[depth],
        MAX_DELAY + CALCULATION,
        "Fig 5-14: all meet 8 s",
        at_least=False,
        unit=" s",
    )
