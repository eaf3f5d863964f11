from __future__ import annotations

import pytest

from simulator.federation import Scenario, try_federation
from tests.simulator.federation.mutations import MUTATIONS, FederationMutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.name for each in MUTATIONS])
def test_a_missing_rule_is_noticed(
    mutation: FederationMutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenarios = mutation.scenarios()
    if mutation.at_steps:
        scenarios = iter(list(scenarios))
    mutation.apply(monkeypatch)
    assert any(_fails(scenario) for scenario in scenarios), "unnoticed"


def _fails(scenario: Scenario) -> bool:
    try:
        return bool(try_federation(scenario).problems)
    except Exception:  # A rule that is missing may bring the protocol to a stop of its own.
        return True
