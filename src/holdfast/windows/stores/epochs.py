"""Epochs: ownership of pairs by a window and its forks in one store.

Each writes its pairs under an epoch of its own. A fork reads the pairs that were interior when it
left from the epochs of its ancestors. Used by `writer` and `stored`; does no input or output.

A window that drops its level of leaves has other leaves from then on. Here levels, positions and
leaf numbers are those of the store, where level 0 is that of the leaves it began with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from holdfast.windows.pairs import Pair, Root
from holdfast.windows.stores.store import KeyRange, level_range

__all__ = ["LEVELS", "Epoch", "interior"]

LEVELS = 64
"""More levels than a window can ever have."""


def interior(following: int, level: int) -> int:
    """How many positions of a level lie before its tail when leaf `following` comes next."""
    return (following + 1 >> level + 1) - 1


@dataclass(eq=False)
class Epoch:
    """The pairs that one window wrote, from its fork (or its start) on."""

    number: int
    parent: Epoch | None = None
    since: int = 0
    """The leaf that came next at the fork."""
    oldest: int = 0
    """The oldest leaf in the window."""
    swept: int = 0
    """Pairs that cover only leaves before this one have been deleted."""
    living: bool = True
    """Whether the window itself is still there; its forks may need its pairs when it is not."""
    forks: list[Epoch] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    """For each level the position after the last pair written."""
    stored: list[int] = field(default_factory=list)
    """For each level the position after the last pair known to be in the store. What lies beyond
    may be there, left by a run that crashed, and is not to be read."""

    dropped: int = 0
    """How many levels of leaves the window has dropped."""
    head: tuple[int, Pair[Any]] | None = None
    """The pair of leaves at this position is this one and not what the store has: the first pair
    after the last level was dropped, of which the older part may have left the window before."""
    companion: Callable[[], Any] | None = None
    """Answers what is saved with the window's root; None: nothing is."""

    def __post_init__(self) -> None:
        if self.parent is not None:
            self.parent.forks.append(self)

    def in_store(self, root: Root[Any]) -> tuple[int, int]:
        """The oldest leaf of a window of this epoch, and the next one, by the numbers here."""
        return root.oldest << self.dropped, (root.next + 1 << self.dropped) - 1

    def holder(self, level: int, position: int) -> Epoch:
        """The epoch under which a pair of this window lies."""
        epoch = self
        while epoch.parent is not None and position < interior(epoch.since, level):
            epoch = epoch.parent
        return epoch

    def has_stored(self, level: int, position: int) -> bool:
        return level < len(self.stored) and position < self.stored[level]

    def note_written(self, level: int, position: int) -> None:
        while level >= len(self.written):
            self.written.append(0)
        self.written[level] = position + 1

    def floor(self) -> int | None:
        """The oldest leaf for whose sake pairs of this epoch must stay; None if there is none."""
        needed = [self.oldest] if self.living else []
        needed += [floor for _, floor in self._needy_forks()]
        return min(needed, default=None)

    def lineage(self) -> Iterator[Epoch]:
        """This epoch, its parent, the parent's parent ..."""
        epoch: Epoch | None = self
        while epoch is not None:
            yield epoch
            epoch = epoch.parent

    def unlink(self) -> None:
        """Take this epoch, which is empty, out of the tree."""
        for fork in self.forks:
            fork.parent = self.parent
        if self.parent is not None:
            self.parent.forks.remove(self)
            self.parent.forks += self.forks

    def swept_by(self, window: str, stop: int) -> list[KeyRange]:
        """The pairs to delete when sweeping on from `swept` to leaf `stop`."""
        ranges: list[KeyRange] = []
        for level in count():
            start, end = self._first(level), stop >> level + 1
            if start < end:
                ranges.append(level_range(window, self.number, level, start, end))
            elif end == self.swept >> level + 1:
                break
        return ranges

    def trim(self, window: str) -> list[KeyRange]:
        """Give up all pairs that no fork may read; answers which these are."""
        ranges = []
        since = max((fork.since for fork, _ in self._needy_forks()), default=0)
        for level, end in enumerate(self.written):
            start = max(self._first(level), interior(since, level))
            if start < end:
                ranges.append(level_range(window, self.number, level, start, end))
                self.written[level] = start
        return ranges

    def is_empty(self) -> bool:
        """Whether there is no pair left, as far as is known."""
        return all(end <= self._first(level) for level, end in enumerate(self.written))

    def _first(self, level: int) -> int:
        """The position of the first pair of a level that may be there."""
        return max(self.swept >> level + 1, interior(self.since, level))

    def _needy_forks(self) -> Iterator[tuple[Epoch, int]]:
        """The forks that still read pairs of this epoch or its ancestors, and from what leaf on."""
        for fork in self.forks:
            floor = fork.floor()
            if floor is not None and floor < fork.since:
                yield fork, floor
