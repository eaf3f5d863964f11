"""The edge: all of its processes on this machine, at full rate, and with children killed.

The published figures beside ours are of another machine and of another program; what is claimed are
ratios within this run, and the rate that was asked for.
"""

from __future__ import annotations

from benchmarks.edge.latency import report_latency
from benchmarks.edge.rates import report_rates
from benchmarks.edge.scale import chosen_scale
from benchmarks.edge.suspicion import report_suspicion
from benchmarks.report import Report
from benchmarks.sharing import table as delivery_table


def run(report: Report) -> None:
    scale = chosen_scale()
    report_rates(report, scale)
    report_latency(report, scale)
    report_suspicion(report, scale)
    columns, rows = delivery_table()
    report.table("Delivery tables: records against whole tuples, bytes a tuple", columns, rows)
