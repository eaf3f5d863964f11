"""A replicated pipeline of real processes on Spark, broken in the ways that matter most.

`make soak PART=nodes` goes through all of them, and through random ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.deployment import Deployment
from harness.faults import CASES, measure_latency


# One test, for starting four replicas takes a minute and workers of pytest share nothing.
@pytest.mark.timeout(1200)
def test_after_each_failure_the_final_rows_are_those_of_a_run_without(tmp_path: Path) -> None:
    """Three sources, two stages with two replicas each."""
    with Deployment(tmp_path) as deployment:
        deployment.wait_until_ready()
        latency = measure_latency(deployment)
        for name in ("no-fault", "driver-killed", "disk-lost", "long-cut", "short-cut"):
            print(name, CASES[name](deployment, latency))
