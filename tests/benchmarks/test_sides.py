"""What is compared runs at the same time, on cores that it exchanges."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.verified.sides import EVERY, side_by_side

CHILD = """
import os, time
for _ in range(30):
    print(int(time.monotonic() / 0.2), *os.sched_getaffinity(0))
    time.sleep(0.2)
"""


def cores_seen(folder: Path) -> dict[int, str]:
    """The core that a child has had, by moments of the machine's clock."""
    command = [sys.executable, "-c", CHILD]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    moments = (line.split(maxsplit=1) for line in said.splitlines())
    return {int(moment): cores for moment, cores in moments}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) != 2, reason="for machines with two cores")
def test_both_have_a_core_of_their_own_and_change_places(tmp_path: Path) -> None:
    assert EVERY < 30 * 0.2 / 2
    one, other = side_by_side(cores_seen, cores_seen, tmp_path)
    assert set(one.values()) == set(other.values()) == set(map(str, os.sched_getaffinity(0)))
    both = one.keys() & other.keys()
    # They do not change in the very same moment.
    assert sum(one[moment] != other[moment] for moment in both) > len(both) / 2
