"""Half the leaves of a window, the same aggregate: what keeps a window within a given memory.

Called by `window`. Where the pairs can give up their lowest level, that of the parents takes its
place, and only the pair that has no parent yet and the oldest leaf, whose parent is stale, need be
seen to (digest §3.9d, level eviction). Elsewhere the leaves are joined and written anew.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import Any, Generic, TypeVar

from holdfast.windows.amta import Amta
from holdfast.windows.monoid import HOLE, Hole
from holdfast.windows.pairs import Pair, Pairs, Root, Written
from holdfast.windows.values import itself

__all__ = ["coarsen"]

S = TypeVar("S")


def coarsen(window: Amta[Any, S, Any]) -> None:
    """Make one leaf of every two neighbours. When it raises, nothing has changed."""
    if len(window) < 2:
        return
    root, pairs = window.root, window.pairs
    if len(root.tails) > 1:
        coarse, written = _evict_level(window)
        if pairs.drop_leaves(root):
            pairs.write(written, coarse)
            window.commit(coarse)
            return
    coarse, written = _join_leaves(window)
    pairs.write(written, root)
    window.commit(coarse)


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


def _join_leaves(window: Amta[Any, S, Any]) -> tuple[Root[S], list[Written[S]]]:
    """The root and the pairs of a new window that begins where the old one ends."""
    at = window.root.next
    fresh: _Fresh[S] = _Fresh()
    coarse: Amta[S, S, Any] = Amta(_of_states(window), pairs=fresh, root=Root(at, at, end=at))
    states: list[S | Hole] = list(window.leaves())
    if window.root.oldest & 1:
        # Neighbours are those that have a parent in common.
        states.insert(0, HOLE)
    for older, newer in zip_longest(states[::2], states[1::2], fillvalue=HOLE):
        joined = window.monoid.join(older, newer)
        assert joined is not HOLE
        coarse.insert(joined)
    return coarse.root, fresh.written


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

    def drop_leaves(self, root: Root[S]) -> bool:
        return False


class _Above(_Fresh[S]):
    """The pairs of a window without those of its leaves, under the levels they will have."""

    def __init__(self, pairs: Pairs[S]) -> None:
        super().__init__()
        self._below = pairs

    def read(self, level: int, position: int) -> Pair[S]:
        own = self._pairs.get((level, position))
        return self._below.read(level + 1, position) if own is None else own
