"""Replicas that share work under faults of all kinds: each guarantee keeps what it promises.

Drawn scenarios replay by their seed: `try_sharing(draw_sharing(seed))`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.pipeline.machine.sharing import Guarantee, Replica
from simulator.sharing import Kill, Scenario, draw_beyond, draw_sharing, step_kills, try_sharing
from simulator.sharing.scenario import SECOND, plans
from simulator.sharing.stream import run_stream
from tests.simulator.sharing_mutations import MUTATIONS, SharingMutation

BATCH = 10
SEEDS = 180


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_seeds(first: int) -> None:
    for seed in range(first, first + BATCH):
        problems = try_sharing(draw_sharing(seed)).problems
        assert not problems, f"replay: try_sharing(draw_sharing({seed}))\n" + "\n".join(problems)


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_death_at_every_step(guarantee: Guarantee, hops: int) -> None:
    """Both operators, all steps; the worker, a colleague, a partner; for good or not."""
    for scenario in step_kills(guarantee, hops):
        trial = try_sharing(scenario)
        assert trial.world.deaths == 1, "the step was reached"
        assert trial.problems == (), scenario.step_kill


@pytest.mark.parametrize("guarantee", Guarantee)
def test_two_deaths_in_a_row_on_the_way_cost_at_most_what_is_told(guarantee: Guarantee) -> None:
    for seed in range(25):
        trial = try_sharing(draw_beyond(seed, guarantee))
        assert trial.problems == (), seed


def test_at_least_once_repeats_where_exactly_once_does_not() -> None:
    """Else the guarantees would be one."""
    repeated: Counter[Guarantee] = Counter()
    for guarantee in (Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE):
        for seed in range(10):
            got = try_sharing(draw_sharing(seed, guarantee)).world.got
            repeated[guarantee] += sum(times > 1 for times in got.values())
    assert repeated[Guarantee.AT_LEAST_ONCE] > 0
    assert repeated[Guarantee.EXACTLY_ONCE] == 0


def test_the_fenced_are_refused_in_some() -> None:
    assert any(try_sharing(draw_sharing(seed)).world.refused for seed in range(20))


def test_two_neighbours_of_a_ring_die_together() -> None:
    """Of four; the one after both takes over, and is itself taken over from later."""
    plan = plans(4)["chain"]
    scenario = next(iter(step_kills(Guarantee.EXACTLY_ONCE)))
    faults = [Kill("a/1", SECOND // 5), Kill("a/2", SECOND // 5), Kill("a/3", 3 * SECOND)]
    trial = try_sharing(Scenario(1, plan, scenario.rules, tuples=80, pace=50_000, faults=faults))
    assert trial.problems == ()
    last = trial.world.parties["a/0"].machine
    assert isinstance(last, Replica)
    assert {claim.replica for claim in last.members.own.claims} == {"a/0"}


def test_tables_stay_small_over_a_long_stream() -> None:
    """The soak campaign `sharing` has a million tuples."""
    grown = run_stream(12_000, 1, deaths=2)
    assert (grown.delivered, grown.repeated, grown.deaths) == (12_000, 0, 2)
    assert max(grown.records, grown.kept, grown.in_hand, grown.seen_at_sink) <= 2 * 1024


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.name for each in MUTATIONS])
def test_a_missing_rule_is_noticed(
    mutation: SharingMutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.apply(monkeypatch)
    assert any(_fails(scenario) for scenario in mutation.scenarios()), "unnoticed"


def _fails(scenario: Scenario) -> bool:
    try:
        return bool(try_sharing(scenario).problems)
    except Exception:  # A rule that is missing may bring the protocol to a stop of its own.
        return True
