"""The simulator notices when a rule of the protocols is missing."""

from __future__ import annotations

import pytest

from simulator.trial import try_seed
from tests.simulator.mutations import MUTATIONS, Mutation

SEEDS = 150


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.name for each in MUTATIONS])
def test_a_missing_rule_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the oracles: a run that breaks off shows only that the mutation does not fit any more."""
    mutation.apply(monkeypatch)
    seeds = range(mutation.seed, mutation.seed + SEEDS)
    assert any(try_seed(seed, mutation.options).problems for seed in seeds), (
        f"unnoticed in {SEEDS} seeds"
    )
