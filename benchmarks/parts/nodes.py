"""Nodes: real replicas on Spark, with real processes and sockets, and Spark alone beside them.

Rates are ratios against Spark alone, measured in turns in one session. Delays, corrections and what
processes use are those of this machine: with more replicas than cores they take turns on it.
"""

from __future__ import annotations

from benchmarks.nodes.hops import report_hops
from benchmarks.nodes.mending import report_mending
from benchmarks.nodes.rates import report_rates
from benchmarks.nodes.scale import chosen_scale
from benchmarks.report import Report

USES_SPARK = True


def run(report: Report) -> None:
    scale = chosen_scale()
    report_rates(report, scale)
    report_hops(report, scale)
    report_mending(report, scale)
