"""The simulator notices when a rule of the edge is missing."""

from __future__ import annotations

import pytest

from holdfast.sim.edge import run
from tests.sim.edge.mutations import MUTATIONS, Mutation

SEEDS = 40


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.name for each in MUTATIONS])
def test_a_missing_rule_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.apply(monkeypatch)
    assert any(_fails(mutation, seed) for seed in range(SEEDS)), f"unnoticed in {SEEDS} seeds"


def _fails(mutation: Mutation, seed: int) -> bool:
    try:
        return bool(run(seed, mutation.options).problems)
    except Exception:  # A rule that is missing may bring the protocol to a stop of its own.
        return True
