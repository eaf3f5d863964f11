"""The verbs every window algorithm answers to, and what the simple ones share.

The five verbs: insert, evict (one or many at once), result, length, slide by a policy. `roll` does
insert, slide and result for each of many values. Operands are always combined oldest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

from holdfast.errors import EmptyWindowError, InvalidArgumentError
from holdfast.windows.monoid import HOLE, Hole, Monoid
from holdfast.windows.policies import Part, Policy, check_monotone, check_policy
from holdfast.windows.values import to_integer

__all__ = ["Stepwise", "Window", "check_eviction", "check_monoid", "roll", "slide_one_by_one"]

V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")


class Window(Protocol[V, S, R]):
    """A first-in first-out window over updates V with states S and answers R."""

    monoid: Monoid[V, S, R]

    def __len__(self) -> int: ...

    def result(self) -> R:
        """The aggregate of what is in the window, lowered; that of the identity when empty."""

    def insert(self, value: V) -> None:
        """Take in the newest update."""

    def evict(self, count: int = 1) -> None:
        """Drop the oldest `count` updates."""

    def slide(self, policy: Policy, *, debug: bool = False) -> int:
        """Evict what the policy says must go; answer how many updates that were."""

    def roll(self, values: Iterable[V], policy: Policy) -> Any:
        """Insert each value, slide, and note the result: one result for each value."""

    def aggregate(self) -> S | Hole:
        """The aggregate as a state; a hole when the window is empty."""

    def leaves(self) -> Iterator[S]:
        """The states in the window, oldest first."""


class Stepwise(Window[V, S, R], Protocol):
    """A window that can look one eviction ahead, which is all that `slide_one_by_one` needs."""

    def oldest(self) -> S:
        """The state that would leave next."""

    def rest(self) -> S | Hole:
        """The aggregate without that state."""


def check_monoid(monoid: object) -> None:
    """Refuse to make a window of anything but a monoid."""
    if not isinstance(monoid, Monoid):
        raise InvalidArgumentError(
            f"monoid: is {monoid!r}; give a Monoid or one of holdfast.windows.monoids "
            "(those that take parameters are called first, as in top_k(3))"
        )


def check_eviction(count: int, length: int) -> int:
    """The count as Python's own int; refuses to evict what is not there."""
    if type(count) is not int:
        count = to_integer("evict", count)
    if count < 0:
        raise InvalidArgumentError(f"evict: count is {count}; it must be 0 or more")
    if count > length:
        raise EmptyWindowError(
            f"evict: {count} to go but the window holds {length}; check len(window) first"
        )
    return count


def roll(window: Window[V, S, R], values: Iterable[V], policy: Policy) -> list[R]:
    """Insert each value, slide, and note the result: one result for each value."""
    check_policy(policy)
    insert, slide, result = window.insert, window.slide, window.result
    results = []
    for value in values:
        insert(value)
        slide(policy)
        results.append(result())
    return results


def slide_one_by_one(window: Stepwise[V, S, R], policy: Policy, *, debug: bool = False) -> int:
    """Enforce a policy by single evictions: what algorithms without a search do.

    The policy is asked about the whole prefix that has gone, as one that searches would ask it.
    """
    monoid = window.monoid
    check_policy(policy)
    if debug:
        check_monotone(policy, monoid, window.leaves())
    size = len(window)
    if policy.newest is not None:
        count = max(0, size - policy.newest)
        window.evict(count)
        return count
    limit = size - policy.keep_newest
    before = Part(monoid, size, window.aggregate())
    gone: S | Hole = HOLE
    evicted = 0
    while evicted < limit:
        candidate = monoid.join(gone, window.oldest())
        after = Part(monoid, size - evicted - 1, window.rest())
        if not policy.must_go(Part(monoid, evicted + 1, candidate), after, before):
            break
        window.evict()
        gone = candidate
        evicted += 1
    if evicted < limit and policy.breaks(Part(monoid, size - evicted, window.aggregate())):
        window.evict()
        evicted += 1
    return evicted
