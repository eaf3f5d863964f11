"""The short version of every soak campaign: a few seeds that are the same on every run.

That of `nodes` is in tests/live/test_nodes.py, that of `verified` in tests/live/test_verified.py
and tests/verify/test_coordinator.py.
"""

from __future__ import annotations

import pytest

from harness.parts import load_part, part_names
from soak import campaigns


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", sorted({*part_names(campaigns)} - {"nodes", "verified"}))
def test_a_campaign_passes_its_first_seeds(name: str, seed: int) -> None:
    assert load_part(campaigns, name).run(seed)
