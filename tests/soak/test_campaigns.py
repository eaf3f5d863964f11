"""The short version of every soak campaign: a few seeds that are the same on every run."""

from __future__ import annotations

import pytest

from harness.parts import load_part, part_names, uses_spark
from soak import campaigns

SHORT = [
    name
    for name in part_names(campaigns)
    if name not in ("edge", "edge-attacks", "edge-input")
    and not uses_spark(load_part(campaigns, name))
]
"""All but those with many processes at once, of which tests/live, tests/parties and
tests/edge have some."""


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", SHORT)
def test_a_campaign_passes_its_first_seeds(name: str, seed: int) -> None:
    assert load_part(campaigns, name).run(seed)
