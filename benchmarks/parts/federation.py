"""Federation: where load ends up by bounded-price contracts, beside the document's figures.

Simulated, so that placements are the same on any machine; only times are not. Then stages on Spark.
"""

from __future__ import annotations

from benchmarks.federation.moving import report_moving
from benchmarks.federation.placing import report_baselines, report_placing
from benchmarks.federation.scale import chosen_scale
from benchmarks.federation.varying import report_growth, report_varying
from benchmarks.report import Report

USES_SPARK = True


def run(report: Report) -> None:
    scale = chosen_scale()
    report_placing(report, scale)
    report_baselines(report, scale)
    report_varying(report, scale)
    report_growth(report, scale)
    report_moving(report, scale)
