"""What a node says of its outputs, for unions, joins and both at once."""

from __future__ import annotations

from itertools import product

import pytest

from holdfast.pipeline.machine.states import (
    AllOf,
    AnyOf,
    Reach,
    State,
    best_state,
    inputs_of,
    output_state,
)

S, U, Z, F = State.STABLE, State.UP_FAILURE, State.STABILIZATION, State.FAILURE

UNION = AnyOf(("a", "b"))
JOIN = AllOf(("a", "b"))
JOIN_OF_UNION = AllOf((UNION, "c"))
UNION_OF_JOIN = AnyOf((JOIN, "c"))
ALL: list[Reach] = [UNION, JOIN, JOIN_OF_UNION, UNION_OF_JOIN, "a"]


def best(*states: State) -> dict[str, State]:
    return dict(zip("abc", states, strict=False))


@pytest.mark.parametrize(
    ("states", "union", "join"),
    [
        ((S, S), S, S),
        ((S, U), U, U),
        ((U, U), U, U),
        ((S, Z), U, F),
        ((S, F), U, F),
        ((F, U), U, F),
        ((Z, F), F, F),
        ((Z, Z), F, F),
        ((F, F), F, F),
    ],
)
def test_a_join_blocks_where_a_union_on_the_same_node_goes_on(
    states: tuple[State, ...], union: State, join: State
) -> None:
    for given in (best(*states), best(*reversed(states))):
        assert output_state(UNION, given, reconciling=False) is union
        assert output_state(JOIN, given, reconciling=False) is join


@pytest.mark.parametrize(
    ("reach", "states", "expected"),
    [
        (JOIN_OF_UNION, (S, S, S), S),
        (JOIN_OF_UNION, (F, S, S), U),
        (JOIN_OF_UNION, (F, F, S), F),
        (JOIN_OF_UNION, (S, S, F), F),
        (JOIN_OF_UNION, (F, U, U), U),
        (UNION_OF_JOIN, (F, S, S), U),
        (UNION_OF_JOIN, (S, S, F), U),
        (UNION_OF_JOIN, (F, S, F), F),
        ("a", (S, F, F), S),
        ("a", (U, S, S), U),
        ("a", (F, S, S), F),
    ],
)
def test_what_is_lost_counts_where_it_enters(
    reach: Reach, states: tuple[State, ...], expected: State
) -> None:
    assert output_state(reach, best(*states), reconciling=False) is expected


@pytest.mark.parametrize(
    ("reach", "states", "expected"),
    [
        (UNION, (S, S), Z),
        (UNION, (S, U), Z),
        (UNION, (S, F), Z),
        (UNION, (F, F), F),
        (JOIN, (S, S), Z),
        (JOIN, (U, S), Z),
        (JOIN, (S, F), F),
        ("a", (Z,), Z),
        (JOIN, (Z, S), Z),
        (JOIN, (Z, F), F),
    ],
)
def test_a_reconciling_node_says_so_unless_it_is_blocked(
    reach: Reach, states: tuple[State, ...], expected: State
) -> None:
    assert output_state(reach, best(*states), True, forked=True) is expected


def test_previews_that_wait_for_their_correction_are_not_stable() -> None:
    assert output_state(UNION, best(S, S), False, forked=True) is U
    assert output_state(JOIN, best(S, F), False, forked=True) is F


def test_an_input_that_nobody_knows_is_lost() -> None:
    assert output_state(UNION, {"a": S}, reconciling=False) is U
    assert output_state(JOIN, {"a": S}, reconciling=False) is F


@pytest.mark.parametrize("reach", ALL)
@pytest.mark.parametrize("reconciling", [False, True])
def test_a_better_input_never_makes_an_output_worse(reach: Reach, reconciling: bool) -> None:
    for states in product(State, repeat=3):
        worse = output_state(reach, best(*states), reconciling)
        for place, state in enumerate(states):
            for better in list(State)[:state]:
                changed = (*states[:place], better, *states[place + 1 :])
                assert output_state(reach, best(*changed), reconciling) <= worse


def test_an_output_looks_only_at_its_inputs() -> None:
    assert [sorted(inputs_of(reach)) for reach in ALL] == [
        ["a", "b"],
        ["a", "b"],
        ["a", "b", "c"],
        ["a", "b", "c"],
        ["a"],
    ]


def test_an_input_is_as_good_as_its_best_replica() -> None:
    assert best_state({"x": F, "y": U, "z": Z}) is U
    assert best_state({}) is F
