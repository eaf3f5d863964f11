"""How often a living node is suspected at each threshold of phi, and how soon a dead one is."""

from __future__ import annotations

import numpy as np

from benchmarks.edge.scale import Scale
from benchmarks.report import Report
from simulator.detector_rates import LINKS, measure_rates

__all__ = ["report_suspicion"]

PERIOD = 100_000


def report_suspicion(report: Report, scale: Scale) -> None:
    rows: list[list[object]] = []
    for name, link in LINKS.items():
        rng = np.random.default_rng(8)
        for rate in measure_rates(rng, link, beats=scale.beats, period=PERIOD):
            rows.append(
                [
                    name,
                    rate.threshold,
                    rate.false_suspicions,
                    1e6 * rate.share,
                    rate.detection / 1e3,
                    rate.longest_detection / 1e3,
                ]
            )
    report.table(
        f"False suspicions of phi, heartbeats every 100 ms, {scale.beats:,} of them simulated",
        ["link", "threshold", "false", "per million beats", "detection (ms)", "longest (ms)"],
        rows,
    )
