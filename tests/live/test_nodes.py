"""A replicated pipeline of real processes on Spark, broken in the ways that matter most.

`make soak PART=nodes` goes through all of them, and through random ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.deployment import Deployment
from harness.faults import CASES, measure_latency

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Three sources, two stages with two replicas each."""
    with Deployment(tmp_path_factory.mktemp("nodes")) as running:
        running.wait_until_ready()
        yield running


@pytest.fixture(scope="module")
def latency(deployment: Deployment) -> float:
    return measure_latency(deployment)


@pytest.mark.parametrize("case", ["no-fault", "long-cut", "short-cut", "replica-killed"])
def test_the_final_rows_are_those_of_a_run_without_failure(
    deployment: Deployment, latency: float, case: str
) -> None:
    CASES[case](deployment, latency)
