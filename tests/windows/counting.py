"""Monoids and wrappers the window tests share: what is combined, how often, and what fails when."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

from holdfast.windows.monoid import HOLE, Monoid
from holdfast.windows.policies import Policy

Any3 = Monoid[Any, Any, Any]


def _same(value: Any) -> Any:
    return value


def _follow(older: tuple[int, int], newer: tuple[int, int]) -> tuple[int, int]:
    assert older[1] + 1 == newer[0], f"{older} combined with {newer}"
    return older[0], newer[1]


CONCATENATION: Any3 = Monoid("concatenation", "", _same, add, _same)
"""Not commutative: shows every loss, duplication and change of order."""

SPAN: Any3 = Monoid("span", (), lambda number: (number, number), _follow, _same)
"""First and last of consecutive numbers: shows the same as concatenation, at O(1) per combine."""

PEAK: Any3 = Monoid("peak", 0, _same, max, _same)
"""Over 0, 1 and 2: an update is often equal to the identity, and to its neighbours."""

ALL: Any3 = Monoid("all", True, bool, lambda older, newer: older and newer, _same)

SUM: Any3 = Monoid("sum", 0, _same, add, _same)


def fold(monoid: Any3, states: Iterable[Any]) -> Any:
    """The aggregate of some states by definition; a hole for none."""
    listed = list(states)
    return reduce(monoid.combine, listed) if listed else HOLE


def answer(monoid: Any3, values: Iterable[Any]) -> Any:
    """What a window with just these updates must answer."""
    states = [monoid.lift(value) for value in values]
    return monoid.lower(reduce(monoid.combine, states) if states else monoid.identity)


def filled(window: Any, values: Iterable[Any]) -> Any:
    """The window, with these updates in it."""
    for value in values:
        window.insert(value)
    return window


class Counted:
    """A monoid whose combines are counted."""

    def __init__(self, monoid: Any3) -> None:
        self._combines = 0
        self._combine = monoid.combine
        self.monoid: Any3 = replace(monoid, combine=self._counting)

    def _counting(self, older: Any, newer: Any) -> Any:
        self._combines += 1
        return self._combine(older, newer)

    def spent(self) -> int:
        """How many combines since this was last asked."""
        spent, self._combines = self._combines, 0
        return spent


class TrippedError(Exception):
    """What a function of the user raises."""


class Tripwire:
    """Makes a monoid's functions and a policy's predicates fail at the n-th call of any of them."""

    def __init__(self) -> None:
        self._left: int | None = None

    def arm(self, calls: int) -> None:
        """Let that many calls pass, then fail."""
        self._left = calls

    def disarm(self) -> bool:
        """Let all calls pass; answer whether there were enough calls to fail."""
        tripped, self._left = self._left is not None and self._left < 0, None
        return tripped

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any) -> Any:
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    raise TrippedError
            return function(*arguments)

        return guarded

    def monoid(self, monoid: Any3) -> Any3:
        return replace(
            monoid,
            lift=self.guard(monoid.lift),
            combine=self.guard(monoid.combine),
            lower=self.guard(monoid.lower),
        )

    def policy(self, policy: Policy) -> Policy:
        window, eviction = policy.window_invariant, policy.eviction_invariant
        return replace(
            policy,
            window_invariant=window and self.guard(window),
            eviction_invariant=eviction and self.guard(eviction),
        )
