"""Stores of the interior pairs of an AMTA.

An interior pair never changes once written and is known by (level, position), so where it lies is
somebody else's business: `MemoryPairs` here, `StoredPairs` in `stores` for a key-value store. A
window and its forks share the pairs written before the fork; each writes its own after it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from holdfast.windows.monoid import HOLE, Hole

__all__ = ["BorrowedPairs", "DurablePairs", "MemoryPairs", "Pair", "Pairs", "Root", "Written"]

S = TypeVar("S")

Pair = tuple[S | Hole, S | Hole]
Written = tuple[int, int, Pair[S]]
"""Level, position and content of a pair that has just become interior."""


@dataclass(slots=True)
class Root(Generic[S]):
    """All of an AMTA but its interior pairs: O(log n), and all that a fork or checkpoint copies."""

    oldest: int = 0
    """Number of the oldest leaf: how many updates have ever left the window."""
    next: int = 0
    """Number of the leaf that comes next: how many updates have ever entered it."""
    tails: list[Pair[S]] = field(default_factory=list)
    """The last pair of each level, leaves first; the last one roots the leftmost tree."""
    end: int = 0
    """Number of the first leaf to the right of the leftmost tree."""
    stack: list[S] = field(default_factory=list)
    """Suffixes of the leftmost tree: one for each level with a full head pair, top level first."""
    front: S | Hole = HOLE
    """Aggregate of the leftmost tree (R0)."""
    back: S | Hole = HOLE
    """Aggregate of all other trees (R1)."""

    def copy(self) -> Root[S]:
        return replace(self, tails=list(self.tails), stack=list(self.stack))


class Pairs(Protocol[S]):
    """What an AMTA asks of the place where its interior pairs lie."""

    def read(self, level: int, position: int) -> Pair[S]:
        """One pair that was written and not yet released."""

    def write(self, written: list[Written[S]], root: Root[S]) -> None:
        """Take all of these or raise and take none; `root` is the window before this operation."""

    def release(self, oldest: int) -> None:
        """Pairs that cover only leaves before `oldest` are no longer needed by this window."""

    def fork(self, root: Root[S]) -> Pairs[S]:
        """The place for a fork of the window, which now has this root."""

    def drop(self) -> None:
        """The window is gone; what its forks do not need can go."""

    def checkpoint(self, root: Root[S]) -> None:
        """Make all that was written durable together with this root, where that has a meaning."""

    def drop_leaves(self, root: Root[S], coarse: Root[S], written: list[Written[S]]) -> bool:
        """Forget the pairs of leaves: from now on level l + 1 is level l, and these are written.

        One of them may be in place of a pair that was written before. False: that is not possible
        here, nothing has changed, as when it raises. `root` is the window before this operation,
        `coarse` after it.
        """


class DurablePairs(Pairs[S]):
    """Pairs in a store, which outlive the process together with the root of their window."""

    capacity: int
    """How many pairs are held here at most so that a coarse window can go on without the store."""

    @abstractmethod
    def accompany(self, companion: Callable[[], Any]) -> Any:
        """Save what this answers with every root from now on, in the same write.

        Answers what came with the root that the window was resumed from; None if there is none.
        """

    @abstractmethod
    def hold(self, root: Root[S]) -> None:
        """Hold so many pairs here from now on. `root` is the window as it is."""

    @abstractmethod
    def local(self, level: int, position: int) -> Pair[S] | None:
        """A pair that is held here; None if only the store has it."""

    @abstractmethod
    def reach(self) -> None:
        """Raise StoreUnavailableError unless the store can be reached."""


class BorrowedPairs(Generic[S]):
    """The pairs of another window, for one that sees the newest part of the same updates.

    The other window must take every update first and must keep at least what this one sees: then
    each pair that this one would write is there already.
    """

    def __init__(self, lender: Pairs[S]) -> None:
        self._lender = lender

    def read(self, level: int, position: int) -> Pair[S]:
        return self._lender.read(level, position)

    def write(self, written: list[Written[S]], root: Root[S]) -> None:
        """The lender has them."""

    def release(self, oldest: int) -> None:
        """The lender keeps what it keeps."""

    def fork(self, root: Root[S]) -> BorrowedPairs[S]:
        return BorrowedPairs(self._lender)

    def drop(self) -> None:
        """Nothing here is this window's own."""

    def checkpoint(self, root: Root[S]) -> None:
        """The lender does."""

    def drop_leaves(self, root: Root[S], coarse: Root[S], written: list[Written[S]]) -> bool:
        return False


class MemoryPairs(Generic[S]):
    """Interior pairs in dictionaries, with the garbage collected a few pairs at a time."""

    SWEEP = 4
    """Leaves swept per operation: one keeps up with single evictions, more catch up on bulk."""

    def __init__(self) -> None:
        self._levels: list[dict[int, Pair[S]]] = []
        self._parent: MemoryPairs[S] | None = None
        self._forks: list[MemoryPairs[S]] = []
        self._oldest = 0
        self._floor = 0
        """The oldest leaf that this window or a fork of it may still read."""
        self._swept = 0
        self._dropped = False

    def read(self, level: int, position: int) -> Pair[S]:
        place = self
        while place._parent is not None:
            if level < len(place._levels) and position in place._levels[level]:
                break
            place = place._parent
        return place._levels[level][position]

    def write(self, written: list[Written[S]], root: Root[S]) -> None:
        levels = self._levels
        for level, position, pair in written:
            while level >= len(levels):
                levels.append({})
            levels[level][position] = pair
        if self._swept < self._oldest:
            self._sweep(self.SWEEP)

    def release(self, oldest: int) -> None:
        before, self._oldest = self._oldest, oldest
        if self._forks or self._parent is not None:
            self._raise_floor(before)
            self._sweep(self.SWEEP)
        else:
            self._floor = oldest
            self._sweep_own(self.SWEEP)

    def fork(self, root: Root[S]) -> MemoryPairs[S]:
        fork: MemoryPairs[S] = MemoryPairs()
        fork._parent = self
        fork._oldest = fork._floor = fork._swept = root.oldest
        self._forks.append(fork)
        return fork

    def drop(self) -> None:
        self._dropped = True
        if self._forks:
            self._raise_floor(self._oldest)
        self._unlink()

    def checkpoint(self, root: Root[S]) -> None:
        """Nothing in memory outlives the process."""

    def drop_leaves(self, root: Root[S], coarse: Root[S], written: list[Written[S]]) -> bool:
        if self._forks or self._parent is not None:
            self._part(root)
        del self._levels[:1]
        self._oldest >>= 1
        self._floor >>= 1
        self._swept >>= 1
        self.write(written, coarse)
        return True

    def _part(self, root: Root[S]) -> None:
        """Leave the pairs shared with others to them and go on with a copy: O(n)."""
        own: list[dict[int, Pair[S]]] = []
        following = root.next
        for level in range(len(root.tails)):
            first, tail = root.oldest >> level + 1, following - 1 >> 1
            own.append({position: self.read(level, position) for position in range(first, tail)})
            following = tail
        others: MemoryPairs[S] = MemoryPairs()
        others.__dict__.update(self.__dict__)
        for fork in others._forks:
            fork._parent = others
        if others._parent is not None:
            siblings = others._parent._forks
            siblings[siblings.index(self)] = others
        others.drop()
        self._levels, self._forks, self._parent = own, [], None
        self._oldest = self._floor = self._swept = root.oldest

    def collect(self) -> None:
        """Free all garbage now instead of little by little."""
        self._sweep(None)

    def held(self) -> int:
        """How many pairs are in memory for this window, those shared with its parent apart."""
        return sum(map(len, self._levels))

    def _unlink(self) -> None:
        """Let go of this place once nobody reads it, or leave it to its fork once only that does.

        So a dropped place stays only where two forks part, however often a fork replaces its base.
        """
        parent = self._parent
        if not self._dropped or len(self._forks) > 1:
            return
        if self._forks:
            self._forks[0]._take_over(self)
        elif parent is not None:
            parent._forks.remove(self)
            parent._raise_floor(self._floor)
            parent._unlink()
        self._levels, self._forks, self._parent = [], [], None

    def _take_over(self, parent: MemoryPairs[S]) -> None:
        """Become what this place and its dropped parent were; moves the fewer pairs of the two.

        What the parent wrote after the fork is never read and is swept like any other pair.
        """
        mine, theirs = self._levels, parent._levels
        longest = max(len(mine), len(theirs))
        for levels in (mine, theirs):
            levels += [{} for _ in range(longest - len(levels))]
        if self.held() < parent.held():
            for own, shared in zip(mine, theirs, strict=True):
                shared.update(own)
            self._levels = theirs
        else:
            for own, shared in zip(mine, theirs, strict=True):
                own.update((position, shared[position]) for position in shared.keys() - own.keys())
        self._swept = min(self._swept, parent._swept)
        self._parent = parent._parent
        if self._parent is not None:
            siblings = self._parent._forks
            siblings[siblings.index(parent)] = self

    def _raise_floor(self, before: int) -> None:
        """Find the floor anew, here and above, where it was that of a reader at `before`."""
        place: MemoryPairs[S] | None = self
        while place is not None and place._floor == before:
            floors = [fork._floor for fork in place._forks]
            if not place._dropped:
                floors.append(place._oldest)
            place._floor = min(floors)
            if place._floor == before:
                break
            place = place._parent

    def _sweep(self, budget: int | None) -> None:
        place: MemoryPairs[S] | None = self
        while place is not None:
            place._sweep_own(budget)
            place = place._parent

    def _sweep_own(self, budget: int | None) -> None:
        levels: list[dict[int, Any]] = self._levels
        swept, stop = self._swept, self._floor
        if budget is not None and stop > swept + budget:
            stop = swept + budget
        while swept < stop:
            swept += 1
            # Leaf number `swept` is the first after a pair on each level below its lowest set bit.
            position = swept
            for level in levels:
                if position & 1:
                    break
                position >>= 1
                level.pop(position - 1, None)
        self._swept = swept
