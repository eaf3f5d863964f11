"""Nodes: real replicas on Spark, with real processes and sockets, and Spark alone beside them.

Rates are ratios against Spark alone, measured in turns in one session. Delays, corrections and what
processes use are those of this machine: with more replicas than cores they take turns on it.
"""

from __future__ import annotations

from benchmarks.nodes.hops import report_hops, watch
from benchmarks.nodes.mending import report_idle, report_mending
from benchmarks.nodes.rates import report_rates
from benchmarks.nodes.scale import chosen_scale
from benchmarks.nodes.steady import running
from benchmarks.report import Report

USES_SPARK = True


def run(report: Report) -> None:
    scale = chosen_scale()
    report_rates(report, scale)
    report.progress("one stage of one replica")
    with running(chain=1, replicas=1, warm=scale.warm) as deployment:
        one = watch(deployment, 1, 1, scale.watched)
        report_mending(report, deployment, scale.outages)
        report_idle(report, deployment, scale.idle)
    report_hops(report, scale, one)
