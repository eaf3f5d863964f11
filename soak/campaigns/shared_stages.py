"""A stage on Spark whose replicas share its work, a window behind it: shares are lost."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from harness.deployment import Deployment
from harness.shares import lose_a_share

USES_SPARK = True
DESCRIPTION = "replicas that share a stage's work on Spark: kills and returns, a window behind it"
LOSSES = 3


def run(seed: int) -> str:
    random = Random(seed)
    replicas = random.choice([2, 3])
    with tempfile.TemporaryDirectory(prefix="holdfast-shares-") as name:
        stopped = Deployment(Path(name), bucket="1s", replicas=replicas, shared=True)
        with stopped as deployment:
            deployment.wait_until_ready()
            victims = random.choices(deployment.topology.publishers("clean"), k=LOSSES)
            said = [lose_a_share(deployment, victim, back=True) for victim in victims]
    return "; ".join(said)
