"""Two-Stacks: a queue of two stacks, each of which knows its aggregate.

Amortised three combines per slide, but the slide that empties the front stack turns the whole back
stack over: O(n) in one step. Bulk eviction throws away without combining. Used as the well-known
peer the other algorithms are measured against.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from holdfast.windows.monoid import HOLE, Hole, Monoid
from holdfast.windows.policies import Policy
from holdfast.windows.window import check_eviction, check_monoid, roll, slide_one_by_one

__all__ = ["TwoStacks"]

V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")


class TwoStacks(Generic[V, S, R]):
    """A sliding window: amortised O(1) per slide, O(n) at worst.

    The front stack is empty only when the window is, so the oldest update is always on its top.
    """

    def __init__(self, monoid: Monoid[V, S, R]) -> None:
        check_monoid(monoid)
        self.monoid = monoid
        self._front: list[tuple[S, S]] = []
        """State and aggregate from there to the newest of the front; the oldest is last."""
        self._back: list[S] = []
        self._total_back: S | Hole = HOLE

    def __len__(self) -> int:
        return len(self._front) + len(self._back)

    def result(self) -> R:
        return self.monoid.answer(self.aggregate())

    def aggregate(self) -> S | Hole:
        """The aggregate as a state; a hole when the window is empty."""
        return self.monoid.join(self._front[-1][1], self._total_back) if self._front else HOLE

    def insert(self, value: V) -> None:
        monoid = self.monoid
        state = monoid.lift(value)
        if not self._front:
            self._front.append((state, state))
            return
        if monoid.check_order is not None:
            monoid.check_order(self._back[-1] if self._back else self._front[0][0], state)
        self._total_back = monoid.join(self._total_back, state)
        self._back.append(state)

    def evict(self, count: int = 1) -> None:
        """Drop the oldest `count` updates; combines only for those of the back stack that stay."""
        count = check_eviction(count, len(self))
        in_front = len(self._front)
        if count < in_front:
            del self._front[in_front - count :]
        elif count:
            self._front = self._turned(count - in_front)
            self._back, self._total_back = [], HOLE

    def slide(self, policy: Policy, *, debug: bool = False) -> int:
        """Evict what the policy says must go; answer how many updates that were.

        `debug` first asks the policy about every prefix and raises if its answers are not monotone.
        A policy or combine that raises stops the slide after the evictions made so far.
        """
        return slide_one_by_one(self, policy, debug=debug)

    def roll(self, values: Iterable[V], policy: Policy) -> list[R]:
        """Insert each value, slide, and note the result: one result for each value."""
        return roll(self, values, policy)

    def leaves(self) -> Iterator[S]:
        """The states in the window, oldest first."""
        for state, _ in reversed(self._front):
            yield state
        yield from self._back

    def oldest(self) -> S:
        """The state that would leave next."""
        return self._front[-1][0]

    def rest(self) -> S | Hole:
        """The aggregate without that state."""
        front = self._front[-2][1] if len(self._front) > 1 else HOLE
        return self.monoid.join(front, self._total_back)

    def _turned(self, skipped: int) -> list[tuple[S, S]]:
        """The back stack as a front stack, without the oldest `skipped` of it."""
        combine = self.monoid.combine
        turned: list[tuple[S, S]] = []
        for index in range(len(self._back) - 1, skipped - 1, -1):
            state = self._back[index]
            turned.append((state, combine(state, turned[-1][1]) if turned else state))
        return turned
