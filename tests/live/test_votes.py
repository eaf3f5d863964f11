"""Four replicas of a stage on Spark, one of which lies, and a stage that votes on them.

`make soak PART=votes` does the same with other lies, and crashes under every policy.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.votes import deploy, lie_and_crash


@pytest.mark.timeout(1200)
def test_a_liar_is_named_and_a_crash_is_masked(tmp_path: Path) -> None:
    with deploy(tmp_path, "vote", liar="wrong-value") as deployment:
        deployment.wait_until_ready()
        print(lie_and_crash(deployment))
