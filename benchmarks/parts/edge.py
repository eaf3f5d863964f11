"""The edge: all of its processes on this machine, at full rate, and with children killed.

Published figures beside ours are of another machine and of another program, and no claim is made
against them: claims are ratios within this run, or bounds of the design.
"""

from __future__ import annotations

from benchmarks.edge.carriers import report_carriers
from benchmarks.edge.grid import report_grid
from benchmarks.edge.inputs import report_inputs
from benchmarks.edge.latency import report_latency
from benchmarks.edge.rates import report_rates
from benchmarks.edge.scale import chosen_scale
from benchmarks.edge.suspicion import report_suspicion
from benchmarks.report import Report
from benchmarks.sharing import table as delivery_table


def run(report: Report) -> None:
    scale = chosen_scale()
    report_rates(report, scale)
    report_inputs(report, scale)
    report_grid(report, scale)
    report_latency(report, scale)
    report_suspicion(report, scale)
    report_carriers(report, scale)
    columns, rows = delivery_table()
    report.table("Delivery tables: records against whole tuples, bytes a tuple", columns, rows)
