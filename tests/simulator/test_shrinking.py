from __future__ import annotations

from random import Random

import pytest

from simulator.faults import Fault, FaultKind
from simulator.scenario import Options, Scenario, draw_scenario
from simulator.shrinking import FINEST, shrink

NONE = draw_scenario(0, Options(faults="none"))


def scenario(count: int) -> Scenario:
    """With so many faults of two seconds, each at a party of its own."""
    return NONE.with_faults(
        [
            Fault(FaultKind.FREEZE, number * 100_000, number * 100_000 + 2_000_000, (str(number),))
            for number in range(count)
        ]
    )


def parties(tried: Scenario) -> set[str]:
    return {fault.targets[0] for fault in tried.faults}


@pytest.mark.parametrize("needed", [(0,), (7,), (3, 4), (0, 7), (1, 3, 6), tuple(range(8))])
def test_only_the_faults_that_are_needed_remain(needed: tuple[int, ...]) -> None:
    found = shrink(scenario(8), lambda tried: {str(number) for number in needed} <= parties(tried))
    assert found.kept == needed
    assert parties(found.scenario) == {str(number) for number in needed}


def test_what_fails_without_faults_needs_none() -> None:
    found = shrink(scenario(8), lambda tried: True)
    assert (found.kept, found.scenario.faults) == ((), ())


def test_no_faults_cannot_be_fewer() -> None:
    assert shrink(NONE, lambda tried: True).scenario == NONE


def test_faults_are_shortened_at_both_ends() -> None:
    def fails(tried: Scenario) -> bool:
        return any(f.start <= 1_000_000 and f.end >= 1_200_000 for f in tried.faults)

    (fault,) = shrink(scenario(1), fails).scenario.faults
    assert 0 <= 1_000_000 - fault.start <= 2 * FINEST
    assert 0 <= fault.end - 1_200_000 <= 2 * FINEST


@pytest.mark.parametrize("seed", range(20))
def test_what_is_found_fails_and_no_fault_of_it_can_be_left_out(seed: int) -> None:
    random = Random(seed)
    given = scenario(random.randrange(1, 12))
    # Any of these sets is enough; they overlap, as causes do.
    enough = [
        set(random.sample(sorted(parties(given)), random.randrange(1, len(given.faults) + 1)))
        for _ in range(3)
    ]
    tries = 0

    def fails(tried: Scenario) -> bool:
        nonlocal tries
        tries += 1
        return any(causes <= parties(tried) for causes in enough)

    found = shrink(given, fails)
    assert tries < 400
    assert parties(found.scenario) == {str(number) for number in found.kept}
    assert fails(found.scenario)
    for fault in found.scenario.faults:
        others = [other for other in found.scenario.faults if other is not fault]
        assert not fails(found.scenario.with_faults(others))
