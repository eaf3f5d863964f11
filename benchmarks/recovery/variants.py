"""The variants of the founding document's evaluation in the simulator: tentative rows and the worst
delay of new ones, beside what it states. (Its plots are lost: statements, not figures.)

Two things differ here. The gates of a chain share one clock: a bucket is missed from the event time
at which it is usually complete, so that all gates wait together and each may have the whole delay.
And a replica corrects beside its previews, so that one replica is enough where the document needs a
pair; `by turns` is the document's way.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.recovery.chains import chain_outages, report_chains
from benchmarks.recovery.combinations import combination_outages, report_combinations
from benchmarks.recovery.one_stage import one_stage_outages, report_one_stage
from benchmarks.recovery.outages import Outage, Outcome, run_outages
from benchmarks.recovery.scale import Scale
from benchmarks.report import Report

__all__ = ["report_variants"]


def report_variants(report: Report, scale: Scale) -> None:
    # The longest first, so that the two processes end together.
    wanted = sorted(
        {*one_stage_outages(scale), *combination_outages(scale), *chain_outages(scale)},
        key=_length,
        reverse=True,
    )
    outcomes = _run_all(report, wanted)
    report_one_stage(report, scale, outcomes)
    report_combinations(report, scale, outcomes)
    report_chains(report, scale, outcomes)
    report.claim(
        f"rows missing, doubled or not corrected after {len(outcomes)} runs",
        sum(outcome.wrong for outcome in outcomes.values()),
        0,
        "what the sources logged",
        at_least=False,
    )
    report.claim(
        "rows of inputs that did not fail, shown only with the corrections, links in order",
        sum(outcome.skipped for outcome in outcomes.values()),
        0,
        "what the sources logged",
        at_least=False,
    )


def _length(outage: Outage) -> float:
    return outage.failure * outage.depth * outage.replicas


def _run_all(report: Report, wanted: Sequence[Outage]) -> dict[Outage, Outcome]:
    report.progress(f"{len(wanted)} runs in the simulator, two at a time")
    outcomes = {}
    for outage, outcome in run_outages(wanted):
        outcomes[outage] = outcome
        if len(outcomes) % 20 == 0:
            report.progress(f"{len(outcomes)} of {len(wanted)} done")
    return outcomes
