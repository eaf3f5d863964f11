"""Slide policies: what leaves a window after an update came in.

A policy is a pair of predicates over aggregates, searched like a binary search tree
(digest §3.6). Windows enforce it in `slide`; `check_monotone` is what their debug mode runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidArgumentError, PolicyNotMonotoneError
from holdfast.windows.monoid import HOLE, Hole, Monoid
from holdfast.windows.values import to_integer

__all__ = [
    "Part",
    "Policy",
    "before_max",
    "check_monotone",
    "check_policy",
    "hopping",
    "last",
    "time_span",
    "two_argument",
    "value_bound",
]


class Part:
    """A stretch of a window as a policy sees it: how many updates, and their aggregate.

    The aggregate is combined and lowered when `value` is first read, so a rule that looks only at
    `size` costs no combine. The two operands may be parts themselves and then are as lazy.
    """

    __slots__ = ("_monoid", "_newer", "_older", "_value", "size")

    def __init__(
        self, monoid: Monoid[Any, Any, Any], size: int, older: Any = HOLE, newer: Any = HOLE
    ) -> None:
        self.size = size
        self._monoid = monoid
        self._older = older
        self._newer = newer
        self._value: Any = HOLE

    @property
    def value(self) -> Any:
        """The aggregate, lowered: what `result()` of a window with just these updates answers."""
        if self._value is HOLE:
            self._value = self._monoid.answer(self.state())
        return self._value

    def state(self) -> Any:
        """The aggregate as a state, combined once; a hole for no updates. For window algorithms."""
        self._older = self._monoid.join(_state(self._older), _state(self._newer))
        self._newer = HOLE
        return self._older

    def __repr__(self) -> str:
        return f"Part(size={self.size}, value={self.value!r})"


def _state(operand: Any) -> Any:
    return operand.state() if isinstance(operand, Part) else operand


@dataclass(frozen=True)
class Policy:
    """What must leave the window: at least one of the two predicates is given.

    `window_invariant(window)`: may the window stay like this? Once true it must be true of every
    smaller window. `eviction_invariant(candidate, after, before)`: must this prefix, at least, go?
    Once false it must be false of every longer prefix. Evicted is the longer of: the shortest
    prefix without which the window invariant holds, the longest one the eviction invariant names.

    The newest update stays, even one that alone breaks the window invariant: the window then holds
    just it. With `keep_newest=False` such a window ends up empty.
    """

    window_invariant: Callable[[Part], bool] | None = None
    eviction_invariant: Callable[[Part, Part, Part], bool] | None = None
    keep_newest: bool = True
    newest: int | None = None
    """Set when the rule is just "keep the newest n": windows then evict without a search."""
    positional: bool = False
    """Set when the eviction invariant judges a place in the stream alike wherever the window began:
    it compares, say, the time at that place with the newest time. Approximate windows then know
    where an exact one begins; a window invariant alone always is of this kind."""

    def __post_init__(self) -> None:
        if self.window_invariant is None and self.eviction_invariant is None:
            raise InvalidArgumentError(
                "Policy: give window_invariant, eviction_invariant or both; "
                "a window that never evicts needs no policy"
            )
        for part in ("window_invariant", "eviction_invariant"):
            if getattr(self, part) is not None and not callable(getattr(self, part)):
                raise InvalidArgumentError(
                    f"Policy: {part} is {getattr(self, part)!r}; give a function of parts"
                )

    def must_go(self, candidate: Part, after: Part, before: Part) -> bool:
        """Whether at least `candidate` has to leave `before`, which leaves `after`."""
        if self.breaks(after):
            return True
        invariant = self.eviction_invariant
        return invariant is not None and bool(invariant(candidate, after, before))

    def breaks(self, window: Part) -> bool:
        """Whether the window invariant is false of `window`; an empty one always is acceptable."""
        invariant = self.window_invariant
        return invariant is not None and window.size > 0 and not invariant(window)


def check_policy(policy: object) -> None:
    """Refuse to slide by anything but a policy."""
    if not isinstance(policy, Policy):
        raise InvalidArgumentError(
            f"policy: is {policy!r}; give one of holdfast.windows.policies, as in last(100), "
            "or a Policy"
        )


def two_argument(
    rule: Callable[[Part, Part], bool], *, keep_newest: bool = True, positional: bool = False
) -> Policy:
    """`rule(total, old)`: at least the prefix `old` has to leave the window `total`.

    `positional`: see `Policy`.
    """
    if not callable(rule):
        raise InvalidArgumentError(f"two_argument: rule is {rule!r}; give a function of two parts")
    return Policy(
        eviction_invariant=lambda candidate, _after, before: rule(before, candidate),
        keep_newest=keep_newest,
        positional=positional,
    )


def last(size: int | Callable[[Part], int]) -> Policy:
    """Keep the newest `size` updates; a function of the window makes the size change as it runs."""
    if callable(size):
        limit = size
        return Policy(window_invariant=lambda window: window.size <= limit(window))
    newest = to_integer("last: size", size)
    if newest < 1:
        raise InvalidArgumentError(f"last: size is {newest}; a window keeps at least 1 update")
    return Policy(window_invariant=lambda window: window.size <= newest, newest=newest)


def time_span(length: Any, time: Callable[[Any], Any] = lambda value: value.time) -> Policy:
    """Keep what is younger than `length` (a number or a timedelta), counted from the newest update.

    `time` reads the newest time of an aggregate; by default its dimension `time`
    (`monoids.product(time=monoids.time.over(...), ...)`).
    """
    try:
        positive = bool(length > length - length)
    except TypeError:
        positive = False
    if not positive:
        raise InvalidArgumentError(
            f"time_span: length is {length!r}; give a number or a timedelta above 0"
        )
    return two_argument(
        lambda total, old: bool(time(total.value) - time(old.value) >= length), positional=True
    )


def value_bound(
    limit: Any, value: Callable[[Any], Any] = lambda value: value, *, keep_newest: bool = True
) -> Policy:
    """Keep the longest suffix whose aggregate is at most `limit`.

    The aggregate must not fall when the window grows: sums of negative values have no such suffix.
    """
    if limit is None or limit != limit:
        raise InvalidArgumentError(f"value_bound: limit is {limit!r}; nothing compares with that")
    return Policy(
        window_invariant=lambda window: bool(value(window.value) <= limit), keep_newest=keep_newest
    )


def before_max(value: Callable[[Any], Any] = lambda value: value) -> Policy:
    """Drop all that precedes the (newest) maximum."""
    return Policy(
        eviction_invariant=lambda candidate, after, _before: bool(
            value(candidate.value) <= value(after.value)
        )
    )


def hopping(size: int, hop: int) -> Policy:
    """Grow to `size` updates; the next one makes the oldest `hop` of them leave together."""
    size, hop = to_integer("hopping: size", size), to_integer("hopping: hop", hop)
    if not 1 <= hop <= size:
        raise InvalidArgumentError(f"hopping: hop is {hop}; it must be between 1 and size ({size})")
    return Policy(
        eviction_invariant=lambda candidate, _after, before: (
            before.size > size and candidate.size <= hop
        )
    )


def check_monotone(policy: Policy, monoid: Monoid[Any, Any, Any], leaves: Iterable[Any]) -> None:
    """Ask the policy about every prefix of a window; raise if its answers are not monotone.

    Costs O(n): for tests and for finding out why a policy of one's own surprises.
    """
    states = list(leaves)
    count = len(states)
    suffixes: list[Any] = [HOLE] * (count + 1)
    for index in range(count - 1, -1, -1):
        suffixes[index] = monoid.join(states[index], suffixes[index + 1])
    before = Part(monoid, count, suffixes[0])
    prefix: Any | Hole = HOLE
    broken = [policy.breaks(before)]
    named = [True]
    for index in range(1, count if policy.keep_newest else count + 1):
        prefix = monoid.join(prefix, states[index - 1])
        after = Part(monoid, count - index, suffixes[index])
        broken.append(policy.breaks(after))
        invariant = policy.eviction_invariant
        named.append(
            invariant is not None and bool(invariant(Part(monoid, index, prefix), after, before))
        )
    for what, answers in (("window_invariant", broken), ("eviction_invariant", named)):
        for index in range(1, len(answers)):
            if answers[index] and not answers[index - 1]:
                demand = (
                    "accepts the window without its oldest {0} but not without its oldest {1}"
                    if what == "window_invariant"
                    else "lets the oldest {0} stay but wants the oldest {1} gone"
                ).format(index - 1, index)
                raise PolicyNotMonotoneError(
                    f"{what} is not monotone on this window of {count}: it {demand}. "
                    "Rewrite it so that a smaller window is never worse and a longer prefix never "
                    "more due, or add the dimension it really depends on."
                )
