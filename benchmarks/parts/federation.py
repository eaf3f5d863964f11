"""Federation: where load ends up by bounded-price contracts, beside the document's figures.

Simulated in virtual time, so that all but the growth of the simulator is the same on any machine.
"""

from __future__ import annotations

from benchmarks.federation.beside import Beside
from benchmarks.federation.converging import report_converging, report_counters, report_course
from benchmarks.federation.placing import report_baselines, report_placing
from benchmarks.federation.scale import chosen_scale
from benchmarks.federation.varying import report_cancelling, report_growth, report_varying
from benchmarks.report import Report


def run(report: Report) -> None:
    scale = chosen_scale()
    beside = Beside(report)
    cases = report_placing(report, scale, beside)
    report_course(report, scale, beside)
    report_converging(report, cases, beside)
    report_counters(report, scale, cases, beside)
    report_varying(report, scale, beside)
    report_cancelling(report, scale, beside)
    beside.report()
    report_baselines(report, scale)
    report_growth(report, scale)
