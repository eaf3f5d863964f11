"""Aggregates over single values: what a measure calculates, as a monoid of a scalar window.

Used by `plan`. Values, answers and their types are the measure's own, through its forms; NULL is
left out and NaN is greater than all other numbers, as in Spark. Only the states are others: plain
Python values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from operator import itemgetter, neg
from typing import Any, Final

import numpy as np
import pyarrow as pa

from holdfast.aggregates import Aggregate
from holdfast.spark.measures import Measure
from holdfast.spark.measures.arrow_codecs import Fixed, Nested, OrderCodes, Reader, Scaled, Writer
from holdfast.spark.measures.choose import DAY
from holdfast.spark.measures.strategies import Bounds, Counting, Folding, Picking
from holdfast.windows import monoids
from holdfast.windows.columns import Columns
from holdfast.windows.monoid import HOLE, Monoid, updates
from holdfast.windows.values import itself

__all__ = ["Scalar", "scalar_of"]

AnyMonoid = Monoid[Any, Any, Any]


@dataclass(frozen=True)
class Scalar:
    """One aggregate: how it reads a column, what it calculates, how it writes its answers."""

    monoid: AnyMonoid
    """Over pairs of a time and a value."""
    reads: Reader | None
    """None: it only matters which values are NULL."""
    writes: Writer
    bounds: Bounds | None = None

    def read(self, values: pa.Array | None, rows: int) -> list[Any]:
        """The values of a column, None for NULL; of no column, something for each row."""
        if values is None:
            return [True] * rows
        if self.reads is None:
            return [True if valid else None for valid in values.is_valid().to_pylist()]
        if not values.null_count:
            return list(self.reads.read(values).tolist())
        present = iter(self.reads.read(values.drop_null()).tolist())
        return [next(present) if valid else None for valid in values.is_valid().to_pylist()]

    def write(self, states: Sequence[Any]) -> pa.Array:
        """What each of these states answers."""
        answers = list(map(self.monoid.lower, states))
        valid = np.array([answer is not None for answer in answers], np.bool_)
        column = _objects([answer for answer in answers if answer is not None])
        if self.bounds is not None:
            self.bounds.check(column)
        return self.writes.write(column, None if valid.all() else valid)

    def show(self, state: Any) -> Any:
        """The same for one state, as a Python value; None for NULL."""
        answer = self.monoid.lower(state)
        if answer is None or not _is_coded(self.writes):
            return answer
        return self.writes.write(_objects([answer]), None)[0].as_py()


def scalar_of(aggregate: Aggregate, measure: Measure) -> Scalar:
    """The aggregate that was made into this measure."""
    way = measure.way
    match way:
        case Counting():
            return Scalar(_valued(_without_nulls(monoids.count, 0)), None, Fixed(pa.int64()))
        case Picking():
            return Scalar(_LATEST if way.latest else _EARLIEST, way.form, way.form)
        case Folding():
            inner = _without_nulls(_inner(aggregate, way), way.nothing)
            return Scalar(_valued(inner), way.reads, way.writes, way.bounds)
    raise NotImplementedError(f"{aggregate.function} has no scalar form")


def _inner(aggregate: Aggregate, way: Folding) -> AnyMonoid:
    if isinstance(way.by, Monoid):
        return way.by
    match aggregate.function:
        case "mean" if not isinstance(way.writes, Scaled):
            return monoids.mean
        case "range":
            of_dates = isinstance(way.reads, Fixed) and pa.types.is_date(way.reads.kind)
            return _span(DAY if of_dates else 1)
        case function if function in _INNER:
            return _INNER[function]
    return _of_one_row(way.by)


def _is_coded(form: Writer) -> bool:
    """Whether what the form writes is not the value itself."""
    temporal = isinstance(form, Fixed) and pa.types.is_temporal(form.kind)
    return temporal or isinstance(form, Scaled | OrderCodes | Nested)


def _objects(values: Sequence[Any]) -> Any:
    return np.fromiter(values, dtype=object, count=len(values))


# Monoids around others


def _without_nulls(inner: AnyMonoid, nothing: Any) -> AnyMonoid:
    """The same monoid, but None is left out; where there was nothing else, `nothing` is answered.

    The state of nothing is a hole.
    """
    return Monoid(
        inner.name,
        identity=HOLE,
        lift=partial(_lift_present, inner.lift),
        combine=inner.join,
        lower=partial(_lower_present, inner.lower, nothing),
        addends={
            name: replace(addend, read=partial(_read_present, _plain(addend.read), 0))
            for name, addend in inner.addends.items()
        },
        peak=None if inner.peak is None else partial(_read_present, inner.peak, -inf),
        parameters=inner.parameters,
    )


def _plain(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """NULLs are not counted, so that a count need not be the number of updates."""
    return itself if read is updates else read


def _read_present(read: Callable[[Any], Any], nothing: Any, state: Any) -> Any:
    return nothing if state is HOLE else read(state)


def _lift_present(lift: Callable[[Any], Any], value: Any) -> Any:
    return HOLE if value is None else lift(value)


def _lower_present(lower: Callable[[Any], Any], nothing: Any, state: Any) -> Any:
    return nothing if state is HOLE else lower(state)


def _valued(monoid: AnyMonoid) -> AnyMonoid:
    return monoid.over(itemgetter(1))


def _of_one_row(columns: Columns) -> AnyMonoid:
    """A monoid over columns, for one value at a time: slow, for what has no scalar form."""

    def lift(value: Any) -> Any:
        return columns.lift(np.array([value]))

    def lower(state: Any) -> Any:
        return columns.lower(state).tolist()[0]

    return Monoid(
        columns.name,
        identity=None,
        lift=lift,
        combine=columns.combine,
        lower=lower,
        addends={
            name: replace(addend, read=partial(_read_row, addend.read))
            for name, addend in columns.addends.items()
        },
    )


def _read_row(read: Callable[[Any], Any], state: Any) -> float:
    return float(read(state)[0])


# Extremes: NaN is greater than all other numbers


def _lesser(older: Any, newer: Any) -> Any:
    return newer if older != older or older > newer else older


def _greater(older: Any, newer: Any) -> Any:
    return newer if newer != newer or older < newer else older


def _positive_zero(value: Any) -> Any:
    # Which of two zeros is picked depends on their order.
    return value + 0.0 if type(value) is float else value


def _lift_span(value: Any) -> tuple[Any, Any]:
    return value, value


def _widen(older: tuple[Any, Any], newer: tuple[Any, Any]) -> tuple[Any, Any]:
    return _lesser(older[0], newer[0]), _greater(older[1], newer[1])


def _lower_span(unit: int, state: tuple[Any, Any]) -> Any:
    return _positive_zero((state[1] - state[0]) * unit)


def _span(unit: int) -> AnyMonoid:
    return Monoid(
        "range",
        identity=None,
        lift=_lift_span,
        combine=_widen,
        lower=partial(_lower_span, unit),
        parameters=f"unit={unit}",
    )


# Variances: that of an infinity is NaN


def _lift_moments(value: float) -> tuple[int, float, float]:
    return 1, value, value - value


_INNER: Final[dict[str, AnyMonoid]] = {
    "sum": monoids.sum,
    "min": Monoid(
        "min", identity=None, lift=itself, combine=_lesser, lower=_positive_zero, peak=neg
    ),
    "max": Monoid(
        "max", identity=None, lift=itself, combine=_greater, lower=_positive_zero, peak=itself
    ),
    **{
        monoid.name: replace(monoid, lift=_lift_moments, columns=None, kernel=None)
        for monoid in (
            monoids.variance,
            monoids.variance_population,
            monoids.stddev,
            monoids.stddev_population,
        )
    },
}


# The value at the earliest and the latest time: of several the least and the greatest


def _earlier(older: Any, newer: Any) -> Any:
    """Updates come in the order of time, so that a newer one can be at the same time at best."""
    if older[0] != newer[0] or newer[1] is None:
        return older
    return newer if older[1] is None or newer[1] < older[1] else older


def _later(older: Any, newer: Any) -> Any:
    if older[0] != newer[0] or older[1] is None:
        return newer
    return newer if newer[1] is not None and newer[1] > older[1] else older


def _lower_picked(state: Any) -> Any:
    return None if state is HOLE else state[1]


_EARLIEST: Final[AnyMonoid] = Monoid(
    "earliest", identity=HOLE, lift=itself, combine=_earlier, lower=_lower_picked
)
_LATEST: Final[AnyMonoid] = Monoid(
    "latest", identity=HOLE, lift=itself, combine=_later, lower=_lower_picked
)
