"""Fewer leaves of a window, the same aggregate: what keeps a window within a given memory.

Called by `window`. Where the pairs can give up their lowest level, that of the parents takes its
place, and only the pair that has no parent yet and the oldest leaf, whose parent is stale, need be
seen to (digest §3.9d, level eviction). Elsewhere the leaves are joined and written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from holdfast.windows.amta import Amta
from holdfast.windows.monoid import HOLE, Hole
from holdfast.windows.pairs import Pair, Pairs, Root, Written
from holdfast.windows.values import itself

__all__ = ["coarsen", "find_coarse", "rewrite"]

S = TypeVar("S")


def coarsen(window: Amta[Any, S, Any]) -> None:
    """Make one leaf of every two neighbours. When it raises, nothing has changed."""
    if len(window) < 2:
        return
    root, pairs = window.root, window.pairs
    if len(root.tails) > 1:
        coarse, written = _evict_level(window)
        if pairs.drop_leaves(root, coarse, written):
            window.commit(coarse)
            return
    rewrite(window, _join_leaves(window))


def rewrite(window: Amta[Any, S, Any], states: Iterable[S]) -> None:
    """Give a window these leaves in place of its own. When it raises, nothing has changed."""
    at = window.root.next
    fresh: _Fresh[S] = _Fresh()
    # New leaves begin where the old ones end: what was written once is not written over.
    other: Amta[S, S, Any] = Amta(_of_states(window), pairs=fresh, root=Root(at, at, end=at))
    for state in states:
        other.insert(state)
    window.pairs.write(fresh.written, window.root)
    window.commit(other.root)


def find_coarse(
    window: Amta[Any, S, Any], find: Callable[[int, int], Pair[S] | None]
) -> list[S] | None:
    """The states of a coarser window with the same aggregate, as fine as pairs can be found."""
    for level in range(len(window.root.tails)):
        states = _of_level(window, level, find)
        if states is not None:
            return states
    return None


def _of_level(
    window: Amta[Any, S, Any], level: int, find: Callable[[int, int], Pair[S] | None]
) -> list[S] | None:
    """The elements of a level, oldest first, and of the tails below it; None if one is missing."""
    root, join = window.root, window.monoid.join
    tails = [root.next - 1 >> 1]
    for _ in range(level):
        tails.append(tails[-1] - 1 >> 1)

    def element(level: int, number: int) -> S | Hole:
        at = number >> 1
        pair = root.tails[level] if at == tails[level] else find(level, at)
        if pair is None:
            raise LookupError
        return pair[number & 1]

    first = root.oldest >> level
    try:
        # The element that the window begins in may be stale: it is made anew.
        head = element(0, root.oldest)
        for below in range(level):
            if not root.oldest >> below & 1:
                head = join(head, element(below, root.oldest >> below | 1))
        states = [head]
        states += [element(level, number) for number in range(first + 1, 2 * tails[level] + 2)]
    except LookupError:
        return None
    for pair in reversed(root.tails[:level]):
        states += pair
    return [state for state in states if state is not HOLE]


def _evict_level(window: Amta[Any, S, Any]) -> tuple[Root[S], list[Written[S]]]:
    """The root and the changed pairs once parents are leaves."""
    root = window.root
    above = _Above(window.pairs)
    tails = root.tails[1:]
    oldest, last = root.oldest >> 1, root.next - 1 >> 1
    # The parent of the oldest leaf may be stale, and as a leaf it would be read.
    leaf: S | Hole = window.leaf(root.oldest)
    if not root.oldest & 1:
        leaf = window.monoid.join(leaf, window.leaf(root.oldest + 1))
    in_tail = oldest >> 1 == last - 1 >> 1
    pair = tails[0] if in_tail else above.read(0, oldest >> 1)
    fresh = (pair[0], leaf) if oldest & 1 else (leaf, pair[1])
    if in_tail:
        tails[0] = fresh
    else:
        above.write([(0, oldest >> 1, fresh)], root)
    coarse: Amta[S, S, Any] = Amta(_of_states(window), pairs=above)
    front, stack = coarse._left(oldest, tails)
    back = coarse._right(tails[:-1])
    coarse._root = Root(oldest, last, tails, root.end >> 1, stack, front, back)
    newest = window.monoid.join(*root.tails[0])
    assert newest is not HOLE
    coarse.insert(newest)
    return coarse.root, above.written


def _join_leaves(window: Amta[Any, S, Any]) -> list[S]:
    """One state for every two neighbours."""
    states: list[S | Hole] = list(window.leaves())
    if window.root.oldest & 1:
        # Neighbours are those that have a parent in common.
        states.insert(0, HOLE)
    joined = map(window.monoid.join, states[::2], [*states[1::2], HOLE])
    return [state for state in joined if state is not HOLE]


def _of_states(window: Amta[Any, S, Any]) -> Any:
    return replace(window.monoid, lift=itself, check_order=None)


class _Fresh(Generic[S]):
    """Pairs that are only noted: those of a window that nobody else sees yet."""

    def __init__(self) -> None:
        self.written: list[Written[S]] = []
        self._pairs: dict[tuple[int, int], Pair[S]] = {}

    def read(self, level: int, position: int) -> Pair[S]:
        return self._pairs[level, position]

    def write(self, written: list[Written[S]], root: Root[S]) -> None:
        for level, position, pair in written:
            self._pairs[level, position] = pair
        self.written += written

    def release(self, oldest: int) -> None:
        """Nothing leaves a window that is just being made."""

    def fork(self, root: Root[S]) -> Pairs[S]:
        raise NotImplementedError

    def drop(self) -> None:
        raise NotImplementedError

    def checkpoint(self, root: Root[S]) -> None:
        raise NotImplementedError

    def drop_leaves(self, root: Root[S], coarse: Root[S], written: list[Written[S]]) -> bool:
        return False


class _Above(_Fresh[S]):
    """The pairs of a window without those of its leaves, under the levels they will have."""

    def __init__(self, pairs: Pairs[S]) -> None:
        super().__init__()
        self._below = pairs

    def read(self, level: int, position: int) -> Pair[S]:
        own = self._pairs.get((level, position))
        return self._below.read(level + 1, position) if own is None else own
