"""The Log Monoid Tree Aggregator (digest §3.3), with leaves at fixed numbers as in `amta`.

Leaves are numbered from 0 for ever; element j of level l aggregates the leaves of
[j·2^l, (j+1)·2^l) that are in the window. Both spines are brought up to date by every operation, so
every element that covers a leaf of the window is right at any time. The top level is the first with
at most two elements: the height follows the length of the window, not where it lies.

Every operation works out what changes and only then changes it: a combine or a policy that raises
leaves the window as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from holdfast.windows.monoid import HOLE, Hole, Monoid
from holdfast.windows.pairs import Pair
from holdfast.windows.policies import Part, Policy, check_monotone, check_policy
from holdfast.windows.window import check_eviction, check_monoid, roll

__all__ = ["LogMta"]

V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")

Element = tuple[int, int, S]
"""Level, position and value of an element of the tree."""


class LogMta(Generic[V, S, R]):
    """A sliding window: O(log n) insert and eviction, of one or of many; O(1) result."""

    SWEEP = 4
    """Leaves swept per operation: one keeps up with single evictions, more catch up on bulk."""

    def __init__(self, monoid: Monoid[V, S, R]) -> None:
        check_monoid(monoid)
        self.monoid = monoid
        self._levels: list[dict[int, S]] = [{}]
        self._oldest = self._next = self._swept = 0
        self._total: S | Hole = HOLE

    def __len__(self) -> int:
        return self._next - self._oldest

    @property
    def height(self) -> int:
        """How many levels the tree has, leaves included: at most log2(n) + 2."""
        return _top(self._oldest, self._next) + 1 if len(self) else 0

    def result(self) -> R:
        return self.monoid.answer(self._total)

    def aggregate(self) -> S | Hole:
        """The aggregate as a state; a hole when the window is empty."""
        return self._total

    def insert(self, value: V) -> None:
        monoid, oldest, number = self.monoid, self._oldest, self._next
        state = monoid.lift(value)
        if number == oldest:
            self._commit(oldest, number + 1, [(0, number, state)], state)
            return
        if monoid.check_order is not None:
            monoid.check_order(self._levels[0][number - 1], state)
        written = self._path(number, state, oldest, number + 1)
        top, _, newer = written[-1]
        older = self._first_of_top(top)
        written.append((top, oldest >> top, older))
        self._commit(oldest, number + 1, written, monoid.combine(older, newer))

    def evict(self, count: int = 1) -> None:
        """Drop the oldest `count` updates, at a cost that grows with log(n), whatever the count."""
        count = check_eviction(count, len(self))
        oldest, end = self._oldest + count, self._next
        if oldest == end:
            self._commit(oldest, end, [], HOLE)
        elif count:
            written = self._path(oldest, self._levels[0][oldest], oldest, end)
            top, position, older = written[-1]
            last = end - 1 >> top
            newer = self._levels[top][last] if last > position else HOLE
            self._commit(oldest, end, written, self.monoid.join(older, newer))

    def slide(self, policy: Policy, *, debug: bool = False) -> int:
        """Evict what the policy says must go; answer how many updates that were.

        `debug` first asks the policy about every prefix and raises if its answers are not monotone.
        """
        check_policy(policy)
        if debug:
            check_monotone(policy, self.monoid, self.leaves())
        size = len(self)
        if policy.newest is not None:
            count = max(0, size - policy.newest)
        elif size <= policy.keep_newest:
            count = 0
        else:
            count, window = self._search(policy)
            if window.size > policy.keep_newest and policy.breaks(window):
                count += 1
        self.evict(count)
        return count

    def roll(self, values: Iterable[V], policy: Policy) -> list[R]:
        """Insert each value, slide, and note the result: one result for each value."""
        return roll(self, values, policy)

    def leaves(self) -> Iterator[S]:
        """The states in the window, oldest first."""
        for number in range(self._oldest, self._next):
            yield self._levels[0][number]

    def forest(self) -> list[list[Pair[S]]]:
        """The pairs of each level as they stand, leaves first, with holes where nothing is.

        For pictures and tests. The top level may show its two elements in two pairs.
        """
        return [self._pairs(level) for level in range(self.height)]

    def held(self) -> int:
        """How many elements are in memory, those awaiting collection included."""
        return sum(map(len, self._levels))

    def _pairs(self, level: int) -> list[Pair[S]]:
        first, last = self._oldest >> level, self._next - 1 >> level
        slots = [
            self._levels[level][position] if first <= position <= last else HOLE
            for position in range(first & ~1, (last | 1) + 1)
        ]
        return list(zip(slots[::2], slots[1::2], strict=True))

    def _path(self, number: int, state: S, oldest: int, end: int) -> list[Element[S]]:
        """The elements over an end leaf of the window [oldest, end), from it to the top level."""
        path = [(0, number, state)]
        for level in range(_top(oldest, end)):
            position = number >> level
            if position & 1 and position - 1 >= oldest >> level:
                state = self.monoid.combine(self._levels[level][position - 1], state)
            elif not position & 1 and position + 1 <= end - 1 >> level:
                state = self.monoid.combine(state, self._levels[level][position + 1])
            path.append((level + 1, position >> 1, state))
        return path

    def _first_of_top(self, top: int) -> S:
        """The older element of what is or now becomes the top level."""
        if top == _top(self._oldest, self._next):
            return self._levels[top][self._oldest >> top]
        below, child = self._levels[top - 1], self._oldest >> top - 1
        return below[child] if child & 1 else self.monoid.combine(below[child], below[child + 1])

    def _search(self, policy: Policy) -> tuple[int, Part]:
        """The length of the longest prefix that must go, and what then is left.

        Descends from the top level to the leaf where the cut must be: one question per level.
        """
        monoid, start, end = self.monoid, self._oldest, self._next
        before, rest = Part(monoid, end - start, self._total), Part(monoid, 0)
        if not policy.keep_newest and policy.must_go(before, rest, before):
            return end - start, rest
        gone: Part | Hole = HOLE
        top = _top(start, end)
        position = start >> top
        for level in range(top, -1, -1):
            if level < top:
                position *= 2
            if position < start >> level:
                position += 1
            elif position < end - 1 >> level:
                cut, elements = position + 1 << level, self._levels[level]
                candidate = Part(monoid, cut - start, gone, elements[position])
                after = Part(monoid, end - cut, elements[position + 1], rest)
                if policy.must_go(candidate, after, before):
                    gone, position = candidate, position + 1
                else:
                    rest = after
        return position - start, Part(monoid, end - position, self._levels[0][position], rest)

    def _commit(self, oldest: int, end: int, written: list[Element[S]], total: S | Hole) -> None:
        levels = self._levels
        for level, position, value in written:
            if level == len(levels):
                levels.append({})
            levels[level][position] = value
        self._oldest, self._next, self._total = oldest, end, total
        stop = min(oldest, self._swept + self.SWEEP)
        for number in range(self._swept + 1, stop + 1):
            # Leaf `number` is the first after an element on each level up to its lowest set bit.
            for level in range(min(len(levels), (number & -number).bit_length())):
                levels[level].pop((number >> level) - 1, None)
        self._swept = stop


def _top(oldest: int, end: int) -> int:
    """The first level with at most two elements over the leaves [oldest, end)."""
    last = end - 1
    level = max(0, (last - oldest).bit_length() - 1)
    return level + ((last >> level) - (oldest >> level) > 1)
