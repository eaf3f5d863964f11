"""The simulator notices when a rule of the edge is missing."""

from __future__ import annotations

import pytest

from simulator.edge import Options, run
from tests.simulator.edge.mutations import MUTATIONS, Mutation, no_epochs

SEEDS = 40


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.name for each in MUTATIONS])
def test_a_missing_rule_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.apply(monkeypatch)
    assert any(_fails(mutation, seed) for seed in range(SEEDS)), f"unnoticed in {SEEDS} seeds"


@pytest.mark.parametrize("family", ["freezes", "cuts", "storm"])
def test_the_fence_at_the_sensors_saves_work_and_no_event(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slot is a function of its offset, whoever computes it: two owners at a time, each obeyed
    when it speaks, come to the same. So the epochs that sensors go by are redundant for results;
    they keep events from being sent to and fro."""
    no_epochs(monkeypatch)
    for seed in range(8):
        assert not run(seed, Options("exactly-once", family)).problems


def _fails(mutation: Mutation, seed: int) -> bool:
    try:
        return bool(run(seed, mutation.options).problems)
    except Exception:  # A rule that is missing may bring the protocol to a stop of its own.
        return True
