"""Federation on Spark: a stage that moves to a partner and back, beside a restart by hand."""

from __future__ import annotations

from benchmarks.federation.moving import report_moving
from benchmarks.federation.scale import chosen_scale
from benchmarks.report import Report

USES_SPARK = True


def run(report: Report) -> None:
    report_moving(report, chosen_scale())
