"""A replicated pipeline of real processes on Spark: every fault once, or some in random order."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from harness.deployment import Deployment
from harness.faults import CASES, measure_latency, short_cut

USES_SPARK = True
DESCRIPTION = "replicated nodes on Spark: kills, cuts, lost disks, frozen processes, slow links"
SOME = 5
"""Faults in one random schedule."""


def run(seed: int) -> str:
    """Seed 0: each fault once. Seed 1: a chain of four stages. Others: random schedules."""
    random = Random(seed)
    with tempfile.TemporaryDirectory(prefix="holdfast-nodes-") as folder:
        if seed == 1:
            return _chain(Path(folder))
        names = list(CASES) if seed == 0 else random.choices(list(CASES), k=SOME)
        with Deployment(Path(folder)) as deployment:
            deployment.wait_until_ready()
            latency = measure_latency(deployment)
            said = [f"{name}: {CASES[name](deployment, latency)}" for name in names]
        return f"latency {latency:.1f} s; " + "; ".join(said)


def _chain(folder: Path) -> str:
    """A failure shorter than `max_delay` shows in none of four stages."""
    with Deployment(folder, replicas=1, chain=3) as deployment:
        deployment.wait_until_ready()
        latency = measure_latency(deployment)
        return f"chain of four: {short_cut(deployment, latency)}"
