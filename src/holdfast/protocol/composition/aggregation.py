"""Many updates of one input made one record: those in a window, or the last of each partition.

A result is recalculated in the order of the log, so that it does not depend on where a batch began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from holdfast.errors import HoldfastError
from holdfast.intervals import parse_interval
from holdfast.protocol.composition.documents import Aggregate
from holdfast.protocol.composition.updates import Update
from holdfast.windows import monoids as m
from holdfast.windows.monoid import HOLE, Monoid

__all__ = ["MOST_LOADED", "MOST_MEMBERS", "WindowTooLongError", "aggregated", "span_of", "within"]

MOST_MEMBERS: Final = 10_000
MOST_LOADED: Final = 100_000
"""Of one stream, all its partitions: with more of them, some may not have been looked up."""

_MONOIDS: Final[dict[str, Monoid[Any, Any, Any]]] = {
    "count": m.count,
    "sum": m.sum,
    "mean": m.mean,
    "min": m.min,
    "max": m.max,
    "range": m.range,
    "stddev": m.stddev,
    "first": m.first,
    "last": m.last,
    "any": m.any,
    "all": m.all,
}


class WindowTooLongError(HoldfastError):
    """More updates than one result may be made of."""


def span_of(aggregate: Aggregate) -> int | None:
    """The microseconds that it looks back, if there is a limit."""
    told = aggregate.size if aggregate.over == "window" else aggregate.expiry
    return None if told is None else parse_interval("aggregate", told)


def within(updates: Sequence[Update], aggregate: Aggregate, now: int) -> Sequence[Update]:
    """Those that count at this time; oldest first, as they were given."""
    span = span_of(aggregate)
    found = updates if span is None else [each for each in updates if each.timestamp > now - span]
    if aggregate.over == "window" and aggregate.count is not None:
        found = found[-aggregate.count :]
    if len(found) > MOST_MEMBERS:
        raise WindowTooLongError(
            f"aggregate: {len(found)} updates are in it, of {MOST_MEMBERS} at most; "
            "give a smaller size, or count"
        )
    return found


def aggregated(
    updates: Iterable[Update], aggregate: Aggregate, lift: Callable[[str, Update], Any]
) -> dict[str, Any]:
    """A value for each field that has one; `lift` says what an update brings to a field."""
    members = list(updates)
    record: dict[str, Any] = {"_count": len(members)}
    for name, field in aggregate.fields.items():
        monoid = _MONOIDS[field.function]
        state: Any = HOLE
        for update in members:
            state = monoid.join(state, monoid.lift(lift(name, update)))
        answer = monoid.answer(state)
        if answer is not None:
            record[name] = answer
    return record
