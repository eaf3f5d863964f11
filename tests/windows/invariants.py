"""What must be true inside a window after every operation, worked out from its leaves.

The monoid's states must be comparable with ==.
"""

from __future__ import annotations

from math import log2
from typing import Any

from holdfast.windows import Amta, Daba, LogMta, Recalculation, TwoStacks
from holdfast.windows.monoid import HOLE
from tests.windows.counting import fold

AnyWindow = Any


def assert_structure(window: AnyWindow) -> None:
    """The structural invariants of whatever algorithm this is."""
    {
        Amta: assert_amta,
        LogMta: assert_log_mta,
        Daba: assert_daba,
        TwoStacks: assert_two_stacks,
        Recalculation: assert_recalculation,
    }[type(window)](window)


class Leaves:
    """Aggregates of stretches of a window, by leaf number."""

    def __init__(self, window: AnyWindow, oldest: int) -> None:
        self.monoid = window.monoid
        self.states = list(window.leaves())
        self.oldest = oldest
        self.next = oldest + len(self.states)

    def fold(self, start: int, end: int) -> Any:
        first, last = max(start, self.oldest), min(end, self.next)
        return fold(self.monoid, self.states[first - self.oldest : max(first, last) - self.oldest])

    def element(self, level: int, position: int) -> Any:
        return self.fold(position << level, (position + 1) << level)


def assert_pairs(forest: list[list[tuple[Any, Any]]]) -> None:
    """Invariants 1 and 2 of the digest (§3.3)."""
    for pairs in forest:
        assert pairs
        assert (HOLE, HOLE) not in pairs
        assert all(older is not HOLE for older, _ in pairs[1:])
        assert all(newer is not HOLE for _, newer in pairs[:-1])


def assert_amta(window: Amta[Any, Any, Any]) -> None:
    """Digest §3.4: the forest, the stack and the result pair."""
    root, forest = window.root, window.forest()
    leaves = Leaves(window, root.oldest)
    assert len(window) == len(leaves.states)
    assert leaves.next == root.next
    if not leaves.states:
        assert (root.tails, root.stack, root.front, root.back) == ([], [], HOLE, HOLE)
        return
    top = len(forest) - 1
    assert len(forest) <= log2(len(window)) + 2
    assert_pairs(forest)
    assert len(forest[top]) == 1, "the top level is one pair"
    assert [pairs[-1] for pairs in forest[:-1]] == root.tails[:-1]

    tails = []
    elements_end = root.next
    for level, pairs in enumerate(forest):
        first = root.oldest >> level
        last = elements_end - 1
        tails.append(last >> 1)
        assert len(pairs) == (last >> 1) - (first >> 1) + 1
        assert (pairs[0][0] is HOLE) == (first % 2 == 1)
        assert (pairs[-1][1] is HOLE) == (last % 2 == 0)
        for position in range(first, last + 1):
            stale = position << level < root.oldest
            if not stale:
                value = pairs[(position >> 1) - (first >> 1)][position & 1]
                assert value == leaves.element(level, position)
        # Invariant 3: every pair of this level but its tail is an element of the next one.
        elements_end = last >> 1

    end = ((tails[top] << 1) + (2 if root.tails[top][1] is not HOLE else 1)) << top
    assert root.end == end
    assert root.front == leaves.fold(root.oldest, end)
    assert root.back == leaves.fold(end, root.next)
    suffixes = []
    for level in range(top, -1, -1):
        older, newer = forest[level][0]
        if older is not HOLE and newer is not HOLE:
            suffixes.append(leaves.fold(((root.oldest >> level) + 1) << level, end))
    assert root.stack == suffixes


def assert_log_mta(window: LogMta[Any, Any, Any]) -> None:
    """Digest §3.3, and every element of both spines up to date."""
    forest, oldest = window.forest(), window._oldest
    leaves = Leaves(window, oldest)
    assert len(window) == len(leaves.states)
    assert window.height == len(forest)
    assert window.aggregate() == fold(window.monoid, leaves.states)
    if not leaves.states:
        assert forest == []
        return
    assert window.height <= log2(len(window)) + 2
    assert_pairs(forest)
    counts = [sum(slot is not HOLE for pair in pairs for slot in pair) for pairs in forest]
    assert counts[-1] <= 2
    assert all(count > 2 for count in counts[:-1])
    for level, pairs in enumerate(forest):
        position = oldest >> level + 1
        for older, newer in pairs:
            assert older == leaves.element(level, 2 * position)
            assert newer == leaves.element(level, 2 * position + 1)
            position += 1


def assert_daba(window: Daba[Any, Any, Any]) -> None:
    """The invariants of the paper, on values and on sizes."""
    monoid = window.monoid
    stretches = [window._ready, window._left, window._right, window._rear, window._back]
    ready, left, right, rear, back = ([state for state, _ in stretch] for stretch in stretches)
    front = ready + left + right + rear
    assert len(window) == len(front) + len(back)
    assert list(window.leaves()) == front + back
    if not front:
        assert not back
        return
    assert len(left) == len(right)
    assert len(ready) == len(back) + 1

    def suffixes(states: list[Any], count: int) -> list[Any]:
        return [fold(monoid, states[index:]) for index in range(count)]

    def prefixes(states: list[Any]) -> list[Any]:
        return [fold(monoid, states[: index + 1]) for index in range(len(states))]

    found = [[aggregate for _, aggregate in stretch] for stretch in stretches]
    assert found[0] == suffixes(front, len(ready))
    assert found[1] == suffixes(left, len(left))
    assert found[2] == prefixes(right)
    assert found[3] == suffixes(rear, len(rear))
    assert found[4] == prefixes(back)
    assert window.oldest() == front[0]
    assert window.rest() == fold(monoid, (front + back)[1:])


def assert_two_stacks(window: TwoStacks[Any, Any, Any]) -> None:
    """The front is empty only when the window is; both stacks know their aggregates."""
    monoid = window.monoid
    front = [state for state, _ in reversed(window._front)]
    assert len(window) == len(front) + len(window._back)
    assert list(window.leaves()) == front + window._back
    assert window._total_back == fold(monoid, window._back)
    if not front:
        assert not window._back
        return
    suffixes = [aggregate for _, aggregate in reversed(window._front)]
    assert suffixes == [fold(monoid, front[index:]) for index in range(len(front))]
    assert window.oldest() == front[0]
    assert window.rest() == fold(monoid, (front + window._back)[1:])


def assert_recalculation(window: Recalculation[Any, Any, Any]) -> None:
    assert len(window) == len(list(window.leaves()))
