"""A replicated pipeline of real processes on Spark: every fault once, or some in random order."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from harness.deployment import Deployment
from harness.faults import CASES, measure_latency
from harness.standalone import Cluster

USES_SPARK = True
DESCRIPTION = "replicated nodes on Spark: kills, cuts, lost disks, frozen processes, slow links"
SOME = 5
"""Faults in one random schedule."""


def run(seed: int) -> str:
    """Seed 0: each fault once. Seed 1: a failure shorter than `max_delay` in a chain of four
    stages. Seed 2: one replica on a cluster. Others: random schedules."""
    with tempfile.TemporaryDirectory(prefix="holdfast-nodes-") as name:
        folder = Path(name)
        match seed:
            case 0:
                return _break(Deployment(folder), list(CASES))
            case 1:
                return _break(Deployment(folder, replicas=1, chain=3), ["no-fault", "short-cut"])
            case 2:
                with Cluster(folder, workers=2) as cluster:
                    deployment = Deployment(folder, masters={"sums/1": cluster.url})
                    return _break(deployment, ["no-fault", "long-cut", "replica-killed"])
            case _:
                return _break(Deployment(folder), Random(seed).choices(list(CASES), k=SOME))


def _break(stopped: Deployment, names: Sequence[str]) -> str:
    with stopped as deployment:
        deployment.wait_until_ready()
        latency = measure_latency(deployment)
        said = [f"{name}: {CASES[name](deployment, latency)}" for name in names]
    return f"latency {latency:.1f} s; " + "; ".join(said)
