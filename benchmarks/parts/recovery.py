"""Recovery: what a reconciliation costs as the state grows, and what a client sees of a failure.

Work is counted in states combined and copied; times are there for information. Failures run in the
simulator, in virtual time, so that their figures are the same on any machine.
"""

from __future__ import annotations

from benchmarks.recovery.scale import chosen_scale
from benchmarks.recovery.variants import report_variants
from benchmarks.recovery.work import report_work
from benchmarks.report import Report


def run(report: Report) -> None:
    scale = chosen_scale()
    report_work(report, scale)
    report_variants(report, scale)
