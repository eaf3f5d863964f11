"""Replicas on Spark whose machines lose power, and whose files are cut and flipped."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from time import sleep

from harness.deployment import Deployment
from harness.power import STRIKES, ForgetfulDisk, strike

USES_SPARK = True
DESCRIPTION = "replicas on Spark: power failures, cut and flipped files"
SOME = 6
"""Strikes of one case."""


def run(seed: int) -> str:
    """A stage with one or two replicas; every second strike is a power failure."""
    random = Random(seed)
    with tempfile.TemporaryDirectory(prefix="holdfast-power-") as name:
        folder = Path(name).resolve()
        states = folder / "pipeline"
        with (
            ForgetfulDisk(states, folder / "beside") as disk,
            Deployment(
                states,
                chain=0,
                bucket="500ms",
                max_delay="4s",
                replicas=random.choice((1, 2)),
                sources=("a",),
                environment=disk.environment,
            ) as deployment,
        ):
            deployment.wait_until_ready()
            said = []
            for at in range(SOME):
                sleep(random.uniform(0, 12))
                kind = "power" if at % 2 else random.choice(list(STRIKES))
                said.append(strike(deployment, disk, kind, random))
    return " | ".join(said)
