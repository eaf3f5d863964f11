"""A function of the user that raises in the middle of an operation does no harm to any window."""

from __future__ import annotations

from collections.abc import Callable
from operator import add
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import pytest

from holdfast.windows import Amta, Daba, LogMta, Monoid, Part, Policy, Recalculation, TwoStacks
from holdfast.windows.policies import last, two_argument
from tests.windows.counting import CONCATENATION, TrippedError, Tripwire
from tests.windows.invariants import assert_structure

ALL_OR_NOTHING = [Amta, LogMta, Recalculation]
STEP_BY_STEP = [TwoStacks, Daba]
LETTERS = ascii_uppercase + ascii_lowercase
SHAPES = [(inserted, gone) for inserted in (1, 2, 3, 8, 9, 16, 31) for gone in (0, 1, 5)]

Operation = Callable[[Any, Tripwire], object]


def reads_all(count: int) -> Policy:
    """Evicts as many, after a look at every value."""

    def eviction_invariant(candidate: Part, after: Part, before: Part) -> bool:
        assert candidate.value + after.value == before.value
        return candidate.size <= count

    return Policy(
        window_invariant=lambda window: not window.value or window.value >= LETTERS[count // 2],
        eviction_invariant=eviction_invariant,
        keep_newest=False,
    )


OPERATIONS: dict[str, Operation] = {
    "insert": lambda window, _: window.insert("*"),
    "evict one": lambda window, _: window.evict(),
    "evict many": lambda window, _: window.evict(len(window) // 2 + 1),
    "result": lambda window, _: window.result(),
    "slide to last": lambda window, _: window.slide(last(3)),
    "slide by two arguments": lambda window, wire: window.slide(
        wire.policy(two_argument(lambda total, old: len(total.value) - len(old.value) >= 4))
    ),
    "slide by both invariants": lambda window, wire: window.slide(wire.policy(reads_all(6))),
    "debug slide": lambda window, wire: window.slide(wire.policy(reads_all(2)), debug=True),
}


def window_of(algorithm: Any, wire: Tripwire, inserted: int, gone: int) -> Any:
    """A window of the first so many letters after some that left it one by one."""
    window = algorithm(wire.monoid(CONCATENATION))
    for letter in LETTERS[: gone + inserted]:
        window.insert(letter)
    for _ in range(gone):
        window.evict()
    return window


def inside(window: Any) -> tuple[Any, ...]:
    """All there is to see of a window without changing it."""
    shown = [len(window), window.result(), list(window.leaves())]
    if isinstance(window, Amta):
        return (*shown, window.forest(), window.root.copy())
    if isinstance(window, LogMta):
        return (*shown, window.forest(), window.height)
    return tuple(shown)


def fails_at_every_call(
    algorithm: Any, operation: Operation, inserted: int, gone: int
) -> list[tuple[Any, Any, Tripwire]]:
    """The window before and after, for a failure at each call that the operation makes."""
    failures = []
    for calls in range(10_000):
        wire = Tripwire()
        window = window_of(algorithm, wire, inserted, gone)
        before = inside(window)
        if algorithm is Amta:
            window = window.fork()
        wire.arm(calls)
        try:
            operation(window, wire)
        except TrippedError:
            assert wire.disarm()
            failures.append((before, window, wire))
        else:
            assert not wire.disarm()
            return failures
    raise AssertionError("the operation has no end")


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("algorithm", ALL_OR_NOTHING)
def test_the_window_is_as_it_was(algorithm: Any, name: str) -> None:
    tried = 0
    for inserted, gone in SHAPES:
        for before, window, _ in fails_at_every_call(algorithm, OPERATIONS[name], inserted, gone):
            assert inside(window) == before
            assert_structure(window)
            goes_on(window, before[1])
            tried += 1
    assert tried or (name, algorithm) in {
        ("evict one", Recalculation),
        ("evict many", Recalculation),
        ("slide to last", Recalculation),
    }


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("algorithm", STEP_BY_STEP)
def test_the_window_is_valid(algorithm: Any, name: str) -> None:
    """What has left has left, one update at a time; nothing else changed."""
    tried = 0
    for inserted, gone in SHAPES:
        for before, window, _ in fails_at_every_call(algorithm, OPERATIONS[name], inserted, gone):
            assert_structure(window)
            assert before[1].endswith(window.result())
            if name in ("insert", "evict one", "result"):
                assert window.result() == before[1]
            goes_on(window, window.result())
            tried += 1
    assert tried


def goes_on(window: Any, contents: str) -> None:
    """The operations that follow are right."""
    for letter in "0123456789":
        window.insert(letter)
        contents += letter
        assert window.result() == contents
        if len(contents) > 4:
            window.evict(2)
            contents = contents[2:]
        assert window.slide(last(5)) == max(0, len(contents) - 5)
        contents = contents[-5:]
        assert window.result() == contents
        assert_structure(window)


@pytest.mark.parametrize("algorithm", [*ALL_OR_NOTHING, *STEP_BY_STEP])
def test_an_update_older_than_the_newest_is_refused_and_changes_nothing(algorithm: Any) -> None:
    def check_order(newest: tuple[int, ...], state: tuple[int, ...]) -> None:
        if state[0] < newest[-1]:
            raise TrippedError

    monoid = Monoid("times", (), lambda time: (time,), add, lambda state: state, check_order)
    window = algorithm(monoid)
    expected: list[int] = []
    for time in range(0, 120, 2):
        window.insert(time)
        expected.append(time)
        if time % 5 > 1:
            window.evict()
            expected.pop(0)
        if expected:
            with pytest.raises(TrippedError):
                window.insert(time - 1)
        assert window.result() == tuple(expected)
        assert_structure(window)
    window.evict(len(window))
    window.insert(0)
    assert window.result() == (0,), "an empty window has no newest update"
