"""Many updates of one input made one record: what the fields of one are, and the last update of
each partition brought together. `windows` has those of a window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from holdfast.errors import HoldfastError
from holdfast.intervals import parse_interval
from holdfast.protocol.composition.documents import Aggregate
from holdfast.protocol.composition.updates import Update
from holdfast.windows import monoids as m
from holdfast.windows.monoid import HOLE, Monoid

__all__ = ["COUNT", "MONOIDS", "TooManyPartitionsError", "composed", "span_of"]

COUNT: Final = "_count"
"""The field that every record has."""
MOST_COMPOSED: Final = 10_000

MONOIDS: Final[dict[str, Monoid[Any, Any, Any]]] = {
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


class TooManyPartitionsError(HoldfastError):
    """More of them than one result may be made of."""


def span_of(aggregate: Aggregate) -> int | None:
    """The microseconds that it looks back, if there is a limit."""
    told = aggregate.size if aggregate.over == "window" else aggregate.expiry
    return None if told is None else parse_interval("aggregate", told)


def composed(
    latest: Iterable[Update], aggregate: Aggregate, now: int, lift: Callable[[str, Update], Any]
) -> dict[str, Any]:
    """The last updates of partitions, in this order, but for those that have expired; `lift` says
    what an update brings to a field."""
    span = span_of(aggregate)
    members = [each for each in latest if span is None or each.timestamp > now - span]
    if len(members) > MOST_COMPOSED:
        raise TooManyPartitionsError(
            f"aggregate: {len(members)} partitions are in it, of {MOST_COMPOSED} at most; "
            "give an expiry, or ask for fewer streams"
        )
    record: dict[str, Any] = {COUNT: len(members)}
    for name, field in aggregate.fields.items():
        answer = _folded(MONOIDS[field.function], [lift(name, each) for each in members])
        if answer is not None:
            record[name] = answer
    return record


def _folded(monoid: Monoid[Any, Any, Any], values: Sequence[Any]) -> Any:
    state: Any = HOLE
    for value in values:
        state = monoid.join(state, monoid.lift(value))
    return monoid.answer(state)
