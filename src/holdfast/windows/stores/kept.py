"""The local side of a window that must go on without its store: enough pairs for a coarse one.

Used by `stored` for approximate windows. Of each level the head pair is held, and of as many upper
levels as there is room for all pairs. Held pairs were written or read here: none is fetched for it,
but when a window is resumed.
"""

from __future__ import annotations

from itertools import count
from typing import Generic, TypeVar

from holdfast.windows.pairs import Pair, Written

__all__ = ["Kept"]

S = TypeVar("S")


class Kept(Generic[S]):
    """At most `capacity` pairs, the last write and the head pairs and the last two read of each
    level apart."""

    def __init__(self, capacity: int, oldest: int) -> None:
        self.capacity = capacity
        self._oldest = oldest
        self._count = 0
        self._levels: list[dict[int, Pair[S]]] = []
        self._heads: dict[int, tuple[int, Pair[S]]] = {}
        self._read: dict[int, list[tuple[int, Pair[S]]]] = {}

    def held(self) -> int:
        """The number of pairs here."""
        return self._count + len(self._heads) + sum(map(len, self._read.values()))

    def find(self, level: int, position: int) -> Pair[S] | None:
        """A pair that is here."""
        if level < len(self._levels):
            pair = self._levels[level].get(position)
            if pair is not None:
                return pair
        if level in self._heads and self._heads[level][0] == position:
            return self._heads[level][1]
        return next((pair for at, pair in self._read.get(level, ()) if at == position), None)

    def note_read(self, level: int, position: int, pair: Pair[S]) -> None:
        """Whatever becomes a head pair is among the last two that were read before."""
        others = [each for each in self._read.get(level, ()) if each[0] != position]
        self._read[level] = [(position, pair), *others[:1]]

    def note_written(self, written: list[Written[S]]) -> None:
        # Not after it: a window that is written anew gets its head pairs by this write.
        self._trim()
        for level, position, pair in written:
            while level >= len(self._levels):
                self._levels.append({})
            self._count += position not in self._levels[level]
            self._levels[level][position] = pair

    def release(self, oldest: int) -> None:
        """Let go of pairs that cover only leaves before `oldest`; find the new head pairs."""
        before, self._oldest = self._oldest, oldest
        for level in count():
            old_head, head = before >> level + 1, oldest >> level + 1
            if head == old_head:
                break
            pair = self.find(level, head)
            self._heads.pop(level, None)
            if level < len(self._levels):
                self._forget(level, old_head, head)
            if pair is not None:
                self._heads[level] = head, pair
        self._trim()

    def drop_leaves(self) -> None:
        """From now on level l + 1 is level l."""
        if self._levels:
            self._count -= len(self._levels.pop(0))
        self._heads = {level - 1: head for level, head in self._heads.items() if level}
        self._read = {level - 1: read for level, read in self._read.items() if level}
        self._oldest >>= 1

    def copy(self) -> Kept[S]:
        """The same for a fork."""
        copied: Kept[S] = Kept(self.capacity, self._oldest)
        copied._count = self._count
        copied._levels = [dict(level) for level in self._levels]
        copied._heads, copied._read = dict(self._heads), dict(self._read)
        return copied

    def _forget(self, level: int, start: int, stop: int) -> None:
        pairs = self._levels[level]
        if stop - start <= len(pairs):
            gone = [at for at in range(start, stop) if at in pairs]
        else:
            gone = [at for at in pairs if at < stop]
        for at in gone:
            del pairs[at]
        self._count -= len(gone)

    def _trim(self) -> None:
        """Where there are too many, let go of whole levels, lowest first, until half of the room is
        free."""
        if self._count <= self.capacity:
            return
        for level, pairs in enumerate(self._levels):
            if self._count <= self.capacity // 2:
                break
            head = self._oldest >> level + 1
            if head in pairs:
                self._heads[level] = head, pairs[head]
            self._count -= len(pairs)
            pairs.clear()
