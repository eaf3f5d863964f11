"""The switching tables: every row by name, and what holds for every combination."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from holdfast.pipeline.machine.replica_selection import Choice, choose, choose_basic, row
from holdfast.pipeline.machine.states import State

LETTERS = {
    "S": State.STABLE,
    "U": State.UP_FAILURE,
    "Z": State.STABILIZATION,
    "F": State.FAILURE,
}
NO_ENDS: dict[str, int] = {}


def states_of(letters: str) -> dict[str, State]:
    return {name: LETTERS[letter] for name, letter in zip("abcd", letters, strict=False)}


def choice_of(names: str) -> Choice:
    return Choice(names[0], names[1] if len(names) > 1 else None)


def situations() -> Iterator[tuple[Choice, dict[str, State], dict[str, int]]]:
    """All states of one to three replicas, all choices among them, ends in several orders."""
    for count in (1, 2, 3):
        names = "abc"[:count]
        for letters in product("SUZF", repeat=count):
            states = states_of("".join(letters))
            for current, background in product(names, [None, *names]):
                for ends in ((0, 0, 0), (1, 2, 3), (3, 2, 1), (1, 3, 3)):
                    yield Choice(current, background), states, dict(zip("abc", ends, strict=True))


@pytest.mark.parametrize(
    ("current", "letters", "expected"),
    [
        ("a", "SSS", "a"),
        ("a", "USS", "b"),
        ("a", "ZUS", "c"),
        ("a", "FFS", "c"),
        ("a", "UUU", "a"),
        ("a", "UZF", "a"),
        ("a", "ZUU", "b"),
        ("a", "FZU", "c"),
        ("a", "ZZF", "a"),
        ("a", "FZZ", "a"),
        ("a", "FFF", "a"),
        ("c", "SUF", "a"),
        ("gone", "ZUS", "c"),
        ("gone", "FFF", "gone"),
    ],
)
def test_the_basic_table(current: str, letters: str, expected: str) -> None:
    assert choose_basic(current, states_of(letters)) == expected


@pytest.mark.parametrize(
    ("number", "before", "letters", "after"),
    [
        (1, "a", "SSS", "a"),
        (1, "ab", "SZU", "a"),
        (1, "ab", "SSU", "a"),
        (1, "ab", "USU", "b"),
        (2, "a", "USS", "b"),
        (2, "ab", "UZS", "c"),
        (2, "ab", "FFS", "c"),
        (2, "a", "ZUS", "c"),
        (3, "ab", "UZF", "ab"),
        (3, "ab", "UZU", "ab"),
        (3, "ab", "UZZ", "ab"),
        (3, "ab", "ZUU", "ba"),
        (4, "a", "UUF", "a"),
        (4, "ab", "UUF", "a"),
        (4, "ab", "UFU", "a"),
        (4, "ab", "FUF", "b"),
        (5, "a", "UZF", "ab"),
        (5, "ab", "UUZ", "ac"),
        (5, "ab", "UFZ", "ac"),
        (5, "ab", "FUZ", "bc"),
        (6, "a", "ZZF", "a"),
        (6, "ab", "ZFZ", "a"),
        (6, "ab", "FZF", "b"),
        (7, "a", "ZUF", "ba"),
        (7, "ab", "ZFU", "ca"),
        (7, "ab", "FZU", "cb"),
        (8, "ab", "ZZF", "a"),
        (8, "ba", "ZZF", "a"),
        (8, "ab", "ZZU", "ca"),
        (9, "a", "FUZ", "bc"),
        (9, "a", "FUF", "b"),
        (9, "ab", "FFU", "c"),
        (10, "a", "FZF", "b"),
        (10, "ab", "FFZ", "c"),
        (11, "a", "FFF", "a"),
        (11, "ab", "FFF", "a"),
        (11, "a", "F", "a"),
        (11, "x", "", "x"),
        (9, "xy", "FU", "b"),
    ],
)
def test_every_row_of_the_full_table(number: int, before: str, letters: str, after: str) -> None:
    states = states_of(letters)
    assert row(choice_of(before), states) == number
    assert choose(choice_of(before), states, NO_ENDS) == choice_of(after)


@pytest.mark.parametrize(
    ("before", "letters", "ends", "after"),
    [
        ("ab", "ZZF", {"a": 1, "b": 2}, "b"),
        ("ba", "ZZF", {"a": 2, "b": 1}, "a"),
        ("ab", "ZZU", {"a": 1, "b": 2}, "cb"),
        ("a", "FUU", {"b": 1, "c": 2}, "c"),
        ("a", "FUU", {"b": 2, "c": 2}, "b"),
        ("a", "USS", {"b": 1, "c": 2}, "c"),
        ("a", "UZZ", {"b": 1, "c": 2}, "ac"),
        ("a", "UUU", {"a": 0, "b": 1, "c": 2}, "a"),
        ("ab", "UZZ", {"a": 0, "b": 1, "c": 2}, "ab"),
        ("a", "SSS", {"a": 0, "b": 1, "c": 2}, "a"),
    ],
)
def test_the_most_advanced_candidate_wins_but_displaces_no_equal(
    before: str, letters: str, ends: dict[str, int], after: str
) -> None:
    assert choose(choice_of(before), states_of(letters), ends) == choice_of(after)


def test_every_choice_is_final() -> None:
    for choice, states, ends in situations():
        after = choose(choice, states, ends)
        assert choose(after, states, ends) == after
        assert row(after, states) in {1, 3, 4, 6, 11}


def test_availability_comes_first_then_corrections() -> None:
    for choice, states, ends in situations():
        after = choose(choice, states, ends)
        found = set(states.values())
        assert states[after.current] is min(found)
        corrects = after.background is not None
        assert corrects == (min(found) is State.UP_FAILURE and State.STABILIZATION in found)
        if after.background is not None:
            assert states[after.background] is State.STABILIZATION


def test_nobody_leaves_a_replica_for_one_in_the_same_state() -> None:
    for choice, states, ends in situations():
        after = choose(choice, states, ends)
        if choice.background is None and states[choice.current] is min(states.values()):
            assert after.current == choice.current
        assert choose_basic(choice.current, states) == choice.current or (
            states[choose_basic(choice.current, states)] < states[choice.current]
        )


def test_without_corrections_both_tables_choose_alike() -> None:
    for choice, states, _ in situations():
        if choice.background is None and State.STABILIZATION not in states.values():
            after = choose(choice, states, NO_ENDS)
            assert after == Choice(choose_basic(choice.current, states))


@pytest.mark.parametrize("flaps", ["U", "Z", "F"])
def test_a_flapping_replica_moves_a_reader_of_another_never(flaps: str) -> None:
    choice = Choice("b")
    for turn in range(10):
        states = states_of(("S" if turn % 2 else flaps) + "S")
        choice = choose(choice, states, {"a": turn, "b": 0})
        assert choice == Choice("b")
