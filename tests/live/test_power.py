"""A replica on Spark whose machine loses power, or whose files are cut and flipped.

`make soak PART=power` goes through random ones.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from harness.deployment import Deployment
from harness.power import ForgetfulDisk, strike


@pytest.mark.timeout(900)
def test_final_rows_are_right_after_power_failures_and_damage(tmp_path: Path) -> None:
    """One replica, so that no peer can help it."""
    states = tmp_path / "pipeline"
    with (
        ForgetfulDisk(states, tmp_path / "beside") as disk,
        Deployment(
            states,
            chain=0,
            bucket="1s",
            replicas=1,
            sources=("a",),
            environment=disk.environment,
        ) as deployment,
    ):
        deployment.wait_until_ready()
        random = Random(20)
        for kind in ("log", "power", "flip"):
            print(strike(deployment, disk, kind, random))
