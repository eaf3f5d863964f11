"""Replicas that check each other, as real processes on Spark: every policy, liars and crashes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.lies import CLEVER, NAMED
from harness.votes import POLICIES, deploy, find_out, lie_and_crash, mask_a_crash

USES_SPARK = True
DESCRIPTION = "replicas that check each other on Spark: a crash under every policy, and liars"


def run(seed: int) -> str:
    """The first seeds: a crash under each policy. Then liars that avoid what they take for samples,
    and a liar of each kind that is voted on."""
    with tempfile.TemporaryDirectory(prefix="holdfast-votes-") as name:
        folder = Path(name)
        if seed < len(POLICIES):
            policy = POLICIES[seed]
            with deploy(folder, policy) as deployment:
                deployment.wait_until_ready()
                exactly_once = policy in ("vote", "first", "sample")
                return f"{policy}: {mask_a_crash(deployment, exactly_once=exactly_once)}"
        lies = (*CLEVER, *NAMED)
        lie = lies[(seed - len(POLICIES)) % len(lies)]
        if lie in CLEVER:
            with deploy(folder, "sample", liar=lie, lies="clean/1") as deployment:
                deployment.wait_until_ready()
                return f"{lie}: {find_out(deployment)}"
        with deploy(folder, "vote", liar=lie) as deployment:
            deployment.wait_until_ready()
            return f"{lie}: {lie_and_crash(deployment)}"
