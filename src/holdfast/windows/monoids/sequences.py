"""Monoids that depend on what comes before what, and the two of logic. `monoids` offers them."""

from __future__ import annotations

import operator
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from holdfast.errors import InvalidValueError
from holdfast.windows import columns
from holdfast.windows.monoid import HOLE, Monoid
from holdfast.windows.values import BELOW, check_time_order, itself, none_if, to_ordered, to_time

__all__ = [
    "Nothing",
    "Runs",
    "all",
    "any",
    "collect",
    "first",
    "last",
    "longest_increasing_run",
    "time",
]


class Nothing(Enum):
    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING
"""Where no value has been seen; None may be one."""


class Runs(NamedTuple):
    """The increasing runs of a stretch of updates, as far as a neighbour needs to know them."""

    length: int
    first: Any
    last: Any
    prefix: int
    """How long the run at the start is."""
    suffix: int
    """How long the run at the end is."""
    best: int
    """How long the longest run is."""


def _lift_run(value: Any) -> Runs:
    ordered = to_ordered("longest_increasing_run", value)
    return Runs(1, ordered, ordered, 1, 1, 1)


def _append_runs(older: Runs, newer: Runs) -> Runs:
    if not older.length:
        return newer
    if not newer.length:
        return older
    prefix, suffix, joined = older.prefix, newer.suffix, 0
    if older.last < newer.first:
        joined = older.suffix + newer.prefix
        if older.prefix == older.length:
            prefix = joined
        if newer.suffix == newer.length:
            suffix = joined
    best = max(older.best, newer.best, joined)
    return Runs(older.length + newer.length, older.first, newer.last, prefix, suffix, best)


def _lower_runs(state: Runs) -> int:
    return state.best


def _earlier(older: Any, newer: Any) -> Any:
    return newer if older is NOTHING else older


def _later(older: Any, newer: Any) -> Any:
    return older if newer is NOTHING else newer


def _either(older: bool, newer: bool) -> bool:
    return older or newer


def _both(older: bool, newer: bool) -> bool:
    return older and newer


def _lift_any(value: Any) -> Any:
    if value is HOLE:
        raise InvalidValueError("first or last: HOLE is no value; filter it out or give None")
    return value


def _lift_alone(value: Any) -> tuple[Any, ...]:
    return (value,)


def _newer_time(older: Any, newer: Any) -> Any:
    return older if older > newer else newer


first: Final[Monoid[Any, Any, Any]] = Monoid(
    "first",
    identity=NOTHING,
    lift=_lift_any,
    combine=_earlier,
    lower=partial(none_if, NOTHING),
    columns=columns.FIRST,
    kernel="first",
)
"""The oldest value, whatever it is, None included; None when empty."""

last: Final[Monoid[Any, Any, Any]] = Monoid(
    "last",
    identity=NOTHING,
    lift=_lift_any,
    combine=_later,
    lower=partial(none_if, NOTHING),
    columns=columns.LAST,
    kernel="last",
)
"""The newest value, whatever it is, None included; None when empty."""

any: Final[Monoid[Any, bool, bool]] = Monoid(
    "any", identity=False, lift=bool, combine=_either, lower=itself, columns=columns.ANY
)
"""Whether at least one value is true in Python's sense; False when empty."""

all: Final[Monoid[Any, bool, bool]] = Monoid(
    "all", identity=True, lift=bool, combine=_both, lower=itself, columns=columns.ALL
)
"""Whether every value is true in Python's sense; True when empty."""

collect: Final[Monoid[Any, tuple[Any, ...], list[Any]]] = Monoid(
    "collect", identity=(), lift=_lift_alone, combine=operator.add, lower=list
)
"""All values in a list, oldest first. Its states grow with the window: a combine copies them."""

longest_increasing_run: Final[Monoid[Any, Runs, int]] = Monoid(
    "longest_increasing_run",
    identity=Runs(0, None, None, 0, 0, 0),
    lift=_lift_run,
    combine=_append_runs,
    lower=_lower_runs,
)
"""How many updates the longest stretch has in which each value is greater than the one before."""

time: Final[Monoid[Any, Any, Any]] = Monoid(
    "time",
    identity=BELOW,
    lift=to_time,
    combine=_newer_time,
    lower=partial(none_if, BELOW),
    check_order=check_time_order,
)
"""The newest time; None when empty. Takes numbers, dates and datetimes, and refuses an update that
is before the newest one in the window; equal times are in order. `policies.time_span` reads it."""
