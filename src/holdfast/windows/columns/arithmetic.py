"""Columns that count, add and measure spread: as `monoids.arithmetic`, vectorised."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from reprlib import repr as shorten
from typing import Final

import numpy as np

from holdfast.errors import InvalidValueError
from holdfast.windows.columns.core import (
    Column,
    Columns,
    State,
    addend_at,
    combine_by,
    halve,
    only,
    reduce_by,
)
from holdfast.windows.columns.values import (
    INT64,
    as_column,
    as_objects,
    each,
    is_small,
    narrow,
)
from holdfast.windows.monoid import Addend
from holdfast.windows.values import to_float, to_number

__all__ = [
    "COUNT",
    "GEOMETRIC_MEAN",
    "MEAN",
    "STDDEV",
    "STDDEV_POPULATION",
    "SUM",
    "VARIANCE",
    "VARIANCE_POPULATION",
]


def _numbers(monoid: str, values: Column) -> Column:
    column = as_column(values)
    if column.dtype.kind not in "bif":
        column = each(partial(to_number, monoid), column)
    return column.astype(np.int64) if column.dtype.kind == "b" else column


def _floats(monoid: str, values: Column) -> Column:
    column = as_column(values)
    if column.dtype.kind not in "bif":
        column = each(partial(to_float, monoid), column)
    return column.astype(np.float64, copy=False)


def _ones(values: Column) -> Column:
    return np.ones(len(values), np.int64)


def _lift_total(values: Column) -> State:
    high = _numbers("sum", values)
    if high.dtype == object:
        raise InvalidValueError(
            f"sum: {shorten(next(value for value in high if abs(value) > INT64.max))} does not fit "
            "into int64; give the column as floats, or aggregate it with "
            "columns.objects(monoids.sum)"
        )
    return high, np.zeros(len(high))


def _align_totals(older: State, newer: State) -> tuple[State, State]:
    """Totals are int64 (Python ints where that would overflow), or floats with a rest."""
    if "f" in (older[0].dtype.kind, newer[0].dtype.kind):
        return _split(older), _split(newer)
    return (as_objects(older[0]), older[1]), (as_objects(newer[0]), newer[1])


def _split(total: State) -> State:
    """A sum of ints as floats, exact to twice a float's precision."""
    high, low = total
    if high.dtype.kind == "f":
        return total
    near = high.astype(np.float64)
    if not is_small(high):
        low = (as_objects(high) - np.frompyfunc(int, 1, 1)(near)).astype(np.float64)
    return near, low


def _add(older: State, newer: State) -> State:
    if older[0].dtype != newer[0].dtype:
        older, newer = _align_totals(older, newer)
    if older[0].dtype.kind == "f":
        return _two_sum(*older, *newer)
    return _add_whole(older[0], newer[0]), older[1]


def _two_sum(a: Column, a_low: Column, b: Column, b_low: Column) -> State:
    """Knuth's TwoSum: high + (what is added to low) is a + b exactly."""
    with np.errstate(over="ignore", invalid="ignore"):
        high = a + b
        b_part = high - a
        rest = high - b_part
        np.subtract(a, rest, out=rest)
        np.subtract(b, b_part, out=b_part)
        rest += b_part
        np.add(a_low, b_low, out=b_part)
        rest += b_part
    return high, rest


def _add_whole(a: Column, b: Column) -> Column:
    total = a + b
    if total.dtype == object:
        return narrow(total)
    if (((a ^ total) & (b ^ total)) < 0).any():
        return as_objects(a) + as_objects(b)
    return total


def _settle(high: Column, low: Column) -> Column:
    """`high + low`; where high is an infinity or NaN, low is NaN and high alone the IEEE answer."""
    with np.errstate(over="ignore", invalid="ignore"):
        total: Column = high + low
    lost = np.isnan(total)
    return np.where(lost, high, total) if lost.any() else total


def _lower_total(state: State) -> Column:
    high, low = state
    if high.dtype == object:
        high = narrow(high)
    if high.dtype == object:
        raise InvalidValueError(
            f"sum: a total of {shorten(max(high, key=abs))} does not fit into int64; give the "
            "column as floats, or aggregate it with columns.objects(monoids.sum)"
        )
    return _settle(high, low) if high.dtype.kind == "f" else high.copy()


def _reduce_totals(state: State, starts: Column) -> State:
    high, low = state
    if high.dtype == np.int64:
        # Plain additions where the longest stretch of the greatest value cannot overflow.
        longest = int(np.diff(starts, append=len(high)).max())
        if longest * max(int(high.max()), -int(high.min())) <= INT64.max:
            return np.add.reduceat(high, starts), low[starts]
    return halve(SUM, state, starts)


def _lift_average(values: Column) -> State:
    numbers = _numbers("mean", values)
    return *_split((numbers, np.zeros(len(numbers)))), _ones(values)


def _add_averages(older: State, newer: State) -> State:
    return *_two_sum(*older[:2], *newer[:2]), older[2] + newer[2]


def _lower_average(state: State) -> Column:
    high, low, n = state
    return _settle(high, low) / n


def _lift_logarithm(values: Column) -> State:
    numbers = _floats("geometric_mean", values)
    above = numbers > 0
    if not above.all():
        raise InvalidValueError(
            f"geometric_mean: {numbers[~above][0]} is not above 0; filter it out or map it to "
            "another value"
        )
    return np.log(numbers), np.zeros(len(numbers)), _ones(values)


def _lower_geometric(state: State) -> Column:
    with np.errstate(over="ignore"):
        answer: Column = np.exp(_lower_average(state))
    return answer


def _read_total(state: State) -> Column:
    return _settle(state[0].astype(np.float64), state[1].astype(np.float64))


def _lift_count(values: Column) -> State:
    return (_ones(values),)


COUNT: Final = Columns(
    "count",
    lift=_lift_count,
    combine=partial(combine_by, np.add),
    lower=only,
    reduce=partial(reduce_by, np.add),
    addends={"count": Addend(partial(addend_at, 0), signed=False)},
)

SUM: Final = Columns(
    "sum",
    lift=_lift_total,
    combine=_add,
    lower=_lower_total,
    align=_align_totals,
    reduce=_reduce_totals,
    addends={"sum": Addend(_read_total)},
)
"""Whole columns stay int64 and exact. Totals in between may be of any size; one that is answered
and does not fit into int64 raises when it is lowered."""

MEAN: Final = Columns(
    "mean",
    lift=_lift_average,
    combine=_add_averages,
    lower=_lower_average,
    addends={
        "sum": Addend(_read_total, of_quotient=True),
        "count": Addend(partial(addend_at, 2), of_quotient=True, signed=False),
    },
)

GEOMETRIC_MEAN: Final = Columns(
    "geometric_mean", lift=_lift_logarithm, combine=_add_averages, lower=_lower_geometric
)


def _lift_moments(monoid: str, values: Column) -> State:
    numbers = _floats(monoid, values)
    return _ones(values), numbers, np.zeros(len(numbers))


def _add_moments(older: State, newer: State) -> State:
    """Chan, Golub and LeVeque's merge: no difference of large squares."""
    n_older, mean_older, m2_older = older
    n_newer, mean_newer, m2_newer = newer
    n = n_older + n_newer
    with np.errstate(over="ignore", invalid="ignore"):
        delta = mean_newer - mean_older
        share = n_newer / n
        mean = delta * share
        mean += mean_older
        delta *= delta
        delta *= share
        delta *= n_older
        delta += m2_older + m2_newer
    return n, mean, delta


def _lower_variance(ddof: int, state: State) -> Column:
    n, _, m2 = state
    with np.errstate(invalid="ignore"):
        answer: Column = m2 / np.where(n > ddof, n - ddof, np.nan)
    return answer


def _lower_stddev(ddof: int, state: State) -> Column:
    answer: Column = np.sqrt(_lower_variance(ddof, state))
    return answer


def _spread(name: str, lower: Callable[[int, State], Column], ddof: int) -> Columns:
    return Columns(
        name,
        lift=partial(_lift_moments, name),
        combine=_add_moments,
        lower=partial(lower, ddof),
    )


VARIANCE: Final = _spread("variance", _lower_variance, 1)
VARIANCE_POPULATION: Final = _spread("variance_population", _lower_variance, 0)
STDDEV: Final = _spread("stddev", _lower_stddev, 1)
STDDEV_POPULATION: Final = _spread("stddev_population", _lower_stddev, 0)
