"""DABA, the De-Amortized Banker's Aggregator: worst-case O(1) for every single operation.

After Tangwongsan, Hirzel and Schneider, "Low-Latency Sliding-Window Aggregation in Worst-Case
Constant Time" (DEBS 2017). It is Two-Stacks whose turning-over is spread over the operations before
the front runs out. At most 4 combines per insert, 3 per eviction, 1 per result, whatever the size.

The paper keeps one queue with pointers F <= L <= R <= A <= B <= E into it. Every move of a pointer
takes an entry from one end of a stretch to the end of its neighbour, so here each stretch is a
deque of its own: nothing is resized, copied or reached into, and dropping a window frees no chain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Generic, TypeVar

from holdfast.windows.monoid import HOLE, Hole, Monoid
from holdfast.windows.policies import Policy
from holdfast.windows.window import check_eviction, check_monoid, roll, slide_one_by_one

__all__ = ["Daba"]

V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")

Entry = tuple[S, S]
"""A state, and the aggregate of some stretch that starts or ends with it."""


class Daba(Generic[V, S, R]):
    """A sliding window: O(1) per operation at worst; evicting or sliding over k costs O(k).

    Oldest first: ready, left, right, rear (together the front) and back. Invariants after every
    operation, unless the window is empty: `|left| = |right|`, and `|ready| = |back| + 1`.
    """

    def __init__(self, monoid: Monoid[V, S, R]) -> None:
        check_monoid(monoid)
        self.monoid = monoid
        self._ready: deque[Entry[S]] = deque()
        """[F, L): each with the aggregate from it to the end of the front."""
        self._left: deque[Entry[S]] = deque()
        """[L, R): each with the aggregate from it to the end of left."""
        self._right: deque[Entry[S]] = deque()
        """[R, A): each with the aggregate from the beginning of right to it."""
        self._rear: deque[Entry[S]] = deque()
        """[A, B): each with the aggregate from it to the end of the front."""
        self._back: deque[Entry[S]] = deque()
        """[B, E): each with the aggregate from the beginning of the back to it."""

    def __len__(self) -> int:
        front = len(self._ready) + len(self._left) + len(self._right) + len(self._rear)
        return front + len(self._back)

    def result(self) -> R:
        return self.monoid.answer(self.aggregate())

    def aggregate(self) -> S | Hole:
        """The aggregate as a state; a hole when the window is empty."""
        return self.monoid.join(_first(self._ready), _last(self._back))

    def insert(self, value: V) -> None:
        monoid = self.monoid
        state = monoid.lift(value)
        if not self._ready:
            self._ready.append((state, state))
            return
        if monoid.check_order is not None:
            monoid.check_order(self._newest(), state)
        prefix = _last(self._back)
        entry = (state, state if prefix is HOLE else monoid.combine(prefix, state))
        shrunk = None
        if self._left:
            shrunk = self._shrunk(self._left[0], self._right[-1])
        elif not self._rear:
            shrunk = self._shrunk(self._ready[0], entry)
        self._back.append(entry)
        self._advance(shrunk)

    def evict(self, count: int = 1) -> None:
        """Drop the oldest `count` updates by as many single evictions, so O(count)."""
        count = check_eviction(count, len(self))
        for _ in range(count):
            shrunk = None
            if self._left:
                shrunk = self._shrunk(self._left[0], self._right[-1])
            elif not self._rear and self._back:
                # Now ready is all of the front and one entry longer than the back.
                shrunk = self._shrunk(self._ready[1], self._back[-1])
            self._ready.popleft()
            self._advance(shrunk)

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
        for state, _ in chain(self._ready, self._left, self._right, self._rear, self._back):
            yield state

    def oldest(self) -> S:
        """The state that would leave next."""
        return self._ready[0][0]

    def rest(self) -> S | Hole:
        """The aggregate without that state; at most 2 combines."""
        join = self.monoid.join
        if len(self._ready) > 1:
            front: S | Hole = self._ready[1][1]
        else:
            front = join(join(_first(self._left), _last(self._right)), _first(self._rear))
        return join(front, _last(self._back))

    def _newest(self) -> S:
        stretches = (self._back, self._rear, self._right, self._left, self._ready)
        return next(stretch[-1][0] for stretch in stretches if stretch)

    def _shrunk(self, oldest: Entry[S], newest: Entry[S]) -> tuple[Entry[S], Entry[S]]:
        """What the oldest entry of left and the newest of right become in ready and rear."""
        join, rear = self.monoid.join, _first(self._rear)
        whole = join(self.monoid.combine(oldest[1], newest[1]), rear)
        suffix = join(newest[0], rear)
        assert whole is not HOLE
        assert suffix is not HOLE
        return (oldest[0], whole), (newest[0], suffix)

    def _advance(self, shrunk: tuple[Entry[S], Entry[S]] | None) -> None:
        """The fix-up that follows each insertion and eviction; combines nothing."""
        if shrunk is None:
            if self._rear:
                self._ready.append(self._rear.popleft())
            return
        if not self._left:
            # The turn-over: front and back, now of equal length, become left and right.
            self._left, self._right = self._ready, self._back
            self._ready, self._back = deque(), deque()
        self._left.popleft()
        self._right.pop()
        self._ready.append(shrunk[0])
        self._rear.appendleft(shrunk[1])


def _first(stretch: Sequence[Entry[S]]) -> S | Hole:
    return stretch[0][1] if stretch else HOLE


def _last(stretch: Sequence[Entry[S]]) -> S | Hole:
    return stretch[-1][1] if stretch else HOLE
