"""Copies: real replicas on Spark that get the state and the log of a peer.

Times are those of this machine, on whose cores both replicas and the source take turns.
"""

from __future__ import annotations

import os

from benchmarks.nodes.copying import report_copies
from benchmarks.report import Report

USES_SPARK = True
SCALES = {
    "smoke": ((1_000, 10_000), (100_000, 1_000_000)),
    "quick": ((100_000, 1_000_000), (10_000_000, 100_000_000)),
}
"""Keys of the states, and bytes of the logs."""
FULL = ((1_000_000, 10_000_000), (100_000_000, 1_000_000_000))


def run(report: Report) -> None:
    keys, logs = SCALES.get(os.environ.get("HOLDFAST_BENCH", ""), FULL)
    report_copies(report, keys, logs)
