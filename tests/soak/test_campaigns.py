"""The short version of every soak campaign: a few seeds that are the same on every run."""

from __future__ import annotations

import pytest

from harness.parts import load_part, part_names
from soak import campaigns

LIVE = {
    "alarms",
    "edge",
    "federation-return",
    "federation-stages",
    "nodes",
    "shared-stages",
    "spark-windows",
    "tenants",
    "verified",
    "verified-tasks",
    "votes",
}
"""Those with many processes at once: see tests/live and tests/parties for what is short."""


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", sorted({*part_names(campaigns)} - LIVE))
def test_a_campaign_passes_its_first_seeds(name: str, seed: int) -> None:
    assert load_part(campaigns, name).run(seed)
