"""Recalculation: the window that keeps its states and aggregates them anew for each result.

Costs O(n) per result and per slide. It is what the other algorithms are tested and measured
against, so it follows the definitions and shares nothing clever with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from holdfast.windows.monoid import HOLE, Hole, Monoid
from holdfast.windows.policies import Part, Policy, check_monotone, check_policy
from holdfast.windows.window import check_eviction, check_monoid, roll

__all__ = ["Recalculation"]

V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")


class Recalculation(Generic[V, S, R]):
    """A sliding window: O(1) insert, O(n) result; nothing to keep in order."""

    def __init__(self, monoid: Monoid[V, S, R]) -> None:
        check_monoid(monoid)
        self.monoid = monoid
        self._states: deque[S] = deque()

    def __len__(self) -> int:
        return len(self._states)

    def result(self) -> R:
        return self.monoid.answer(self.aggregate())

    def aggregate(self) -> S | Hole:
        """The aggregate as a state; a hole when the window is empty."""
        total: S | Hole = HOLE
        for state in self._states:
            total = self.monoid.join(total, state)
        return total

    def insert(self, value: V) -> None:
        state = self.monoid.lift(value)
        if self.monoid.check_order is not None and self._states:
            self.monoid.check_order(self._states[-1], state)
        self._states.append(state)

    def evict(self, count: int = 1) -> None:
        """Drop the oldest `count` updates, one by one."""
        count = check_eviction(count, len(self))
        for _ in range(count):
            self._states.popleft()

    def slide(self, policy: Policy, *, debug: bool = False) -> int:
        """Evict what the policy says must go; answer how many updates that were.

        `debug` first asks the policy about every prefix and raises if its answers are not monotone.
        """
        check_policy(policy)
        if debug:
            check_monotone(policy, self.monoid, self._states)
        count = max(self._least_accepted(policy), self._longest_named(policy))
        self.evict(count)
        return count

    def roll(self, values: Iterable[V], policy: Policy) -> list[R]:
        """Insert each value, slide, and note the result: one result for each value."""
        return roll(self, values, policy)

    def leaves(self) -> Iterator[S]:
        """The states in the window, oldest first."""
        return iter(self._states)

    def _limit(self, policy: Policy) -> int:
        return max(0, len(self) - policy.keep_newest)

    def _least_accepted(self, policy: Policy) -> int:
        """How long a prefix must go before the window invariant holds."""
        limit, size = self._limit(policy), len(self)
        if policy.window_invariant is None:
            return 0
        suffixes = self._suffixes()
        for count in range(limit):
            if not policy.breaks(Part(self.monoid, size - count, suffixes[count])):
                return count
        return limit

    def _longest_named(self, policy: Policy) -> int:
        """How long a prefix the eviction invariant names."""
        limit, size = self._limit(policy), len(self)
        invariant = policy.eviction_invariant
        if invariant is None:
            return 0
        suffixes = self._suffixes()
        before = Part(self.monoid, size, suffixes[0])
        prefix: S | Hole = HOLE
        for count, state in zip(range(1, limit + 1), self._states, strict=False):
            prefix = self.monoid.join(prefix, state)
            candidate = Part(self.monoid, count, prefix)
            after = Part(self.monoid, size - count, suffixes[count])
            if not invariant(candidate, after, before):
                return count - 1
        return limit

    def _suffixes(self) -> list[S | Hole]:
        """Entry i aggregates the window without its oldest i updates."""
        suffixes: list[S | Hole] = [HOLE]
        for state in reversed(self._states):
            suffixes.append(self.monoid.join(state, suffixes[-1]))
        return suffixes[::-1]
