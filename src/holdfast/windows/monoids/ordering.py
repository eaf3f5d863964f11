"""Monoids that compare values. `monoids` offers them to users."""

from __future__ import annotations

import builtins
import operator
from bisect import bisect_right
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from operator import itemgetter, neg
from reprlib import repr as shorten
from typing import Any, Final, NamedTuple

from holdfast.errors import InvalidArgumentError, InvalidValueError
from holdfast.windows import columns
from holdfast.windows.monoid import Monoid
from holdfast.windows.values import ABOVE, BELOW, itself, none_if, to_ordered

__all__ = ["Histogram", "arg_max", "arg_min", "histogram", "max", "min", "range", "top_k"]


# The older operand is on the left: the identity, which stands there if anywhere, then compares
# itself, whatever the values make of strangers.


def _lesser(older: Any, newer: Any) -> Any:
    return newer if older > newer else older


def _greater(older: Any, newer: Any) -> Any:
    return newer if older < newer else older


def _lift_range(value: Any) -> tuple[Any, Any]:
    ordered = to_ordered("range", value)
    try:
        ordered - ordered
    except TypeError:
        raise InvalidValueError(
            f"range: {shorten(value)} has no difference; map it to a number or a datetime"
        ) from None
    return ordered, ordered


def _widen(older: tuple[Any, Any], newer: tuple[Any, Any]) -> tuple[Any, Any]:
    return _lesser(older[0], newer[0]), _greater(older[1], newer[1])


def _lower_range(state: tuple[Any, Any]) -> Any:
    least, greatest = state
    return None if least is ABOVE else greatest - least


def _lift_keyed(monoid: str, update: Any) -> tuple[Any, Any]:
    try:
        key, value = update
    except (TypeError, ValueError):
        raise InvalidValueError(
            f"{monoid}: {shorten(update)} is not a (key, value) pair; make one with "
            f"{monoid}.over(lambda update: (key, value))"
        ) from None
    return to_ordered(monoid, key), value


def _lesser_keyed(older: tuple[Any, Any], newer: tuple[Any, Any]) -> tuple[Any, Any]:
    return newer if older[0] > newer[0] else older


def _greater_keyed(older: tuple[Any, Any], newer: tuple[Any, Any]) -> tuple[Any, Any]:
    return newer if older[0] < newer[0] else older


def _negative_key(state: tuple[Any, Any]) -> Any:
    return -state[0]


def _lower_keyed(state: tuple[Any, Any]) -> Any:
    return state[1]


min: Final[Monoid[Any, Any, Any]] = Monoid(
    "min",
    identity=ABOVE,
    lift=partial(to_ordered, "min"),
    combine=_lesser,
    lower=partial(none_if, ABOVE),
    columns=columns.MIN,
    kernel="min",
    peak=neg,
)
"""The least value, the oldest of equal ones; None when empty. Takes whatever compares with `<`:
numbers, strings, Decimals, dates ..."""

max: Final[Monoid[Any, Any, Any]] = Monoid(
    "max",
    identity=BELOW,
    lift=partial(to_ordered, "max"),
    combine=_greater,
    lower=partial(none_if, BELOW),
    columns=columns.MAX,
    kernel="max",
    peak=itself,
)
"""The greatest value, the oldest of equal ones; None when empty. Takes what `min` takes."""

range: Final[Monoid[Any, tuple[Any, Any], Any]] = Monoid(
    "range",
    identity=(ABOVE, BELOW),
    lift=_lift_range,
    combine=_widen,
    lower=_lower_range,
    columns=columns.RANGE,
    kernel="range",
)
"""The greatest value less the least; None when empty."""

arg_min: Final[Monoid[Any, tuple[Any, Any], Any]] = Monoid(
    "arg_min",
    identity=(ABOVE, None),
    lift=partial(_lift_keyed, "arg_min"),
    combine=_lesser_keyed,
    lower=_lower_keyed,
    peak=_negative_key,
)
"""Over (key, value) updates: the value with the least key, of equal keys the oldest; None when
empty. Spark's `min_by`."""

arg_max: Final[Monoid[Any, tuple[Any, Any], Any]] = Monoid(
    "arg_max",
    identity=(BELOW, None),
    lift=partial(_lift_keyed, "arg_max"),
    combine=_greater_keyed,
    lower=_lower_keyed,
    peak=itemgetter(0),
)
"""Over (key, value) updates: the value with the greatest key, of equal keys the oldest; None when
empty. Spark's `max_by`."""


def top_k(k: int) -> Monoid[Any, tuple[Any, ...], list[Any]]:
    """The k greatest values, greatest first, of equal ones the older first."""
    if not isinstance(k, int) or k < 1:
        raise InvalidArgumentError(f"top_k: k is {k!r}; it must be an int of at least 1")
    return Monoid(
        "top_k",
        identity=(),
        lift=_lift_top,
        combine=partial(_merge_top, k),
        lower=list,
        parameters=f"k={k}",
    )


def _lift_top(value: Any) -> tuple[Any, ...]:
    return (to_ordered("top_k", value),)


def _merge_top(k: int, older: tuple[Any, ...], newer: tuple[Any, ...]) -> tuple[Any, ...]:
    # Sorting is stable in reverse too, and two sorted runs are merged, not sorted anew.
    return tuple(sorted(older + newer, reverse=True)[:k])


class Histogram(NamedTuple):
    """Counts by bin: bin i holds what is at least edge i and below edge i + 1."""

    under: int
    """How many values are below the first edge."""
    counts: tuple[int, ...]
    """How many values each bin holds: one bin fewer than edges."""
    over: int
    """How many values are at the last edge or above it."""


def histogram(edges: Iterable[Any]) -> Monoid[Any, tuple[int, ...], Histogram]:
    """How many values fall between each two neighbouring edges, which are fixed and increasing."""
    bounds = _check_edges(edges)
    empty = (0,) * (len(bounds) + 1)
    units = tuple((*empty[:i], 1, *empty[i + 1 :]) for i in builtins.range(len(empty)))
    return Monoid(
        "histogram",
        identity=empty,
        lift=partial(_lift_into_bin, bounds, units),
        combine=_add_counts,
        lower=_lower_histogram,
        parameters=f"edges={list(bounds)}",
    )


def _check_edges(edges: Iterable[Any]) -> tuple[Any, ...]:
    try:
        bounds = tuple(to_ordered("histogram", edge) for edge in edges)
        increasing = builtins.all(lower < upper for lower, upper in pairwise(bounds))
    except (TypeError, InvalidValueError):
        increasing = False
    if not increasing or not bounds:
        raise InvalidArgumentError(
            f"histogram: edges are {shorten(edges)}; "
            "give a list of at least one, each greater than the one before"
        )
    return bounds


def _lift_into_bin(
    bounds: tuple[Any, ...], units: tuple[tuple[int, ...], ...], value: Any
) -> tuple[int, ...]:
    ordered = to_ordered("histogram", value)
    try:
        return units[bisect_right(bounds, ordered)]
    except TypeError:
        raise InvalidValueError(
            f"histogram: {shorten(value)} cannot be compared with the edges; "
            "filter it out or map it to a value of their kind"
        ) from None


def _add_counts(older: tuple[int, ...], newer: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(operator.add, older, newer))


def _lower_histogram(state: tuple[int, ...]) -> Histogram:
    return Histogram(state[0], state[1:-1], state[-1])
