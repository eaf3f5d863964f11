"""Monoids over NumPy columns: one row per key, all keys of a shard in a few array operations.

Used by `shard`. Each constant is the monoid of the same name in `monoids`, with the same state and
the same formulas; `objects` runs any other one row by row. Nothing here writes into an operand.

Rows are int64, float64, bool, datetime64 or timedelta64 where the values allow it and objects
otherwise. Where a scalar monoid answers None there is NaN in a float column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from reprlib import repr as shorten
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgumentError, InvalidValueError
from holdfast.windows.monoid import Monoid
from holdfast.windows.values import to_float, to_number, to_ordered, to_plain

__all__ = [
    "ALL",
    "ANY",
    "COUNT",
    "FIRST",
    "GEOMETRIC_MEAN",
    "LAST",
    "MAX",
    "MEAN",
    "MIN",
    "RANGE",
    "STDDEV",
    "STDDEV_POPULATION",
    "SUM",
    "VARIANCE",
    "VARIANCE_POPULATION",
    "Column",
    "Columns",
    "State",
    "as_array",
    "as_column",
    "columns_of",
    "objects",
    "put",
    "reduce_segments",
    "rows",
]

Column = NDArray[Any]
State = tuple[Column, ...]
"""One or more columns of equal length, a row for each key."""

EXACT: Final = 2**53
"""Up to here a float64 holds every int."""

INT64: Final = np.iinfo(np.int64)


def _as_they_are(older: State, newer: State) -> tuple[State, State]:
    return older, newer


@dataclass(frozen=True, eq=False)
class Columns:
    """A monoid over columns. `combine` joins row i with row i, the older operand first.

    `lift` makes one row of each value of a column and may share memory with it; `lower` answers
    an array of its own.
    """

    name: str
    lift: Callable[[Column], State]
    combine: Callable[[State, State], State]
    lower: Callable[[State], Column]
    align: Callable[[State, State], tuple[State, State]] = _as_they_are
    """Two states with the same types, field by field, so that rows of both fit into one."""
    reduce: Callable[[State, Column], State] | None = None
    """What `reduce_segments` does, where this monoid has a faster way."""


def columns_of(monoid: Monoid[Any, Any, Any]) -> Columns:
    """The vectorised form of a monoid; one that has none runs row by row."""
    return objects(monoid) if monoid.columns is None else monoid.columns


def objects(monoid: Monoid[Any, Any, Any]) -> Columns:
    """Any monoid over columns of Python objects: right for all, fast for none."""
    lift = np.frompyfunc(monoid.lift, 1, 1)
    combine = np.frompyfunc(monoid.combine, 2, 1)
    lower = np.frompyfunc(monoid.lower, 1, 1)
    return Columns(
        monoid.name,
        lift=lambda values: (lift(_as_objects(values)),),
        combine=lambda older, newer: (combine(older[0], newer[0]),),
        lower=lambda state: lower(state[0]),
    )


def rows(state: State, at: Column | slice) -> State:
    """Some rows of a state."""
    return tuple([field[at] for field in state])


def put(columns: Columns, state: State, at: Column, new: State) -> State:
    """Write rows into a state that belongs to the caller; answers it, perhaps in wider types."""
    if any(old.dtype != field.dtype for old, field in zip(state, new, strict=True)):
        state, new = columns.align(state, new)
    for old, field in zip(state, new, strict=True):
        old[at] = field
    return state


def reduce_segments(columns: Columns, state: State, starts: Column) -> State:
    """One row for each stretch of rows; stretch i goes from `starts[i]` to where the next begins.

    Neighbours are combined pairwise, all stretches at once, until each is one row: order is kept,
    the work is proportional to the rows, the passes to the logarithm of the longest stretch.
    """
    if len(starts) == len(state[0]):
        return state
    if columns.reduce is not None:
        return columns.reduce(state, starts)
    return _halve(columns, state, starts)


def _halve(columns: Columns, state: State, starts: Column) -> State:
    lengths = np.diff(starts, append=len(state[0]))
    places = np.arange(len(starts))
    done: list[tuple[Column, State]] = []
    while True:
        # What is down to one row leaves, so that a pass costs what is still to be done.
        single = lengths == 1
        if single.any():
            done.append((places[single], rows(state, starts[single])))
            more = ~single
            places, starts, lengths = places[more], starts[more], lengths[more]
        if not len(places):
            break
        halves = (lengths + 1) >> 1
        firsts = np.cumsum(halves) - halves
        within = np.arange(halves.sum()) - np.repeat(firsts, halves)
        older = np.repeat(starts, halves) + 2 * within
        paired = np.flatnonzero(older + 1 < np.repeat(starts + lengths, halves))
        both = older[paired]
        joined = columns.combine(rows(state, both), rows(state, both + 1))
        if len(both) < len(older):
            joined = put(columns, rows(state, older), paired, joined)
        state, starts, lengths = joined, firsts, halves
    order = np.empty(sum(len(places) for places, _ in done), np.int64)
    order[np.concatenate([places for places, _ in done])] = np.arange(len(order))
    fields = zip(*(reduced for _, reduced in done), strict=True)
    return tuple([np.concatenate(parts)[order] for parts in fields])


# What users hand in


def as_column(values: Any, what: str = "column") -> Column:
    """An array or a sequence as a column, in the narrowest of our types that loses nothing."""
    column = as_array(values, what)
    match column.dtype.kind:
        case "f":
            return column.astype(np.float64, copy=False)
        case "i":
            return column.astype(np.int64, copy=False)
        case "u":
            fits = not len(column) or column.max() <= INT64.max
            return column.astype(np.int64 if fits else object)
        case "b" | "M" | "m":
            return column
        case "O":
            return _narrow(column)
        case _:
            return column.astype(object)


def as_array(values: Any, what: str = "column") -> Column:
    """An array as it is, or a sequence as an array of objects."""
    if isinstance(values, np.ndarray) or hasattr(values, "__array__"):
        array = np.asarray(values)
    else:
        try:
            # Not np.array: it makes strings of numbers next to a string, and a table of tuples.
            array = np.fromiter(values, dtype=object)
        except TypeError:
            raise InvalidArgumentError(
                f"{what}: {shorten(values)} is neither an array nor a sequence"
            ) from None
    if array.ndim != 1:
        raise InvalidArgumentError(
            f"{what}: has {array.ndim} dimensions; give one value for each row"
        )
    return array


def _narrow(column: Column) -> Column:
    values = column.tolist()
    types = set(map(type, values))
    if any(issubclass(kind, np.number | np.bool_) for kind in types):
        values = list(map(to_plain, values))
        types = set(map(type, values))
    if types == {bool}:
        return np.array(values, np.bool_)
    if types and types <= {int, float}:
        try:
            if float not in types:
                return np.array(values, np.int64)
            floats = np.array(values, np.float64)
        except OverflowError:
            return column
        if int not in types or all(abs(value) <= EXACT for value in values if type(value) is int):
            return floats
    return column


def _as_objects(column: Column) -> Column:
    if column.dtype.kind in "Mm":
        # astype(object) makes bare ints of nanoseconds.
        return np.fromiter(column, dtype=object, count=len(column))
    return column.astype(object, copy=False)


def _each(function: Callable[[Any], Any], column: Column) -> Column:
    """The function's answer for each row, in the narrowest of our types."""
    return _narrow(np.frompyfunc(function, 1, 1)(_as_objects(column)))


# Types of values next to each other


def _small(whole: Column) -> bool:
    """Whether a float64 holds each of these ints."""
    return not len(whole) or bool(whole.min() >= -EXACT and whole.max() <= EXACT)


def _common(older: Column, newer: Column) -> tuple[Column, Column]:
    """Both columns in one type that changes no value."""
    if older.dtype == newer.dtype:
        return older, newer
    kinds = {older.dtype.kind, newer.dtype.kind}
    exact = all(column.dtype.kind != "i" or _small(column) for column in (older, newer))
    if kinds in ({"M"}, {"m"}, {"b", "i"}) or (kinds <= set("bif") and exact):
        kind = np.promote_types(older.dtype, newer.dtype)
        return older.astype(kind), newer.astype(kind)
    return _as_objects(older), _as_objects(newer)


def _align_values(older: State, newer: State) -> tuple[State, State]:
    pairs = [_common(a, b) for a, b in zip(older, newer, strict=True)]
    return tuple([a for a, _ in pairs]), tuple([b for _, b in pairs])


# Counting and adding


def _numbers(monoid: str, values: Column) -> Column:
    column = as_column(values)
    if column.dtype.kind not in "bif":
        column = _each(partial(to_number, monoid), column)
    return column.astype(np.int64) if column.dtype.kind == "b" else column


def _floats(monoid: str, values: Column) -> Column:
    column = as_column(values)
    if column.dtype.kind not in "bif":
        column = _each(partial(to_float, monoid), column)
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
    return (_as_objects(older[0]), older[1]), (_as_objects(newer[0]), newer[1])


def _split(total: State) -> State:
    """A sum of ints as floats, exact to twice a float's precision."""
    high, low = total
    if high.dtype.kind == "f":
        return total
    near = high.astype(np.float64)
    if not _small(high):
        low = (_as_objects(high) - np.frompyfunc(int, 1, 1)(near)).astype(np.float64)
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
        return _narrow(total)
    if (((a ^ total) & (b ^ total)) < 0).any():
        return _as_objects(a) + _as_objects(b)
    return total


def _settle(high: Column, low: Column) -> Column:
    """`high + low`; where high is an infinity or NaN, low is NaN and high alone the IEEE answer."""
    with np.errstate(over="ignore", invalid="ignore"):
        total: Column = high + low
    finite = np.isfinite(total)
    return total if finite.all() else np.where(finite, total, high)


def _lower_total(state: State) -> Column:
    high, low = state
    if high.dtype == object:
        high = _narrow(high)
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
    return _halve(SUM, state, starts)


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


def _only(state: State) -> Column:
    return state[0].copy()


def _lift_count(values: Column) -> State:
    return (_ones(values),)


def _reduce_by(ufunc: np.ufunc, state: State, starts: Column) -> State:
    return (ufunc.reduceat(state[0], starts),)


def _combine_by(ufunc: np.ufunc, older: State, newer: State) -> State:
    return (ufunc(older[0], newer[0]),)


COUNT: Final = Columns(
    "count",
    lift=_lift_count,
    combine=partial(_combine_by, np.add),
    lower=_only,
    reduce=partial(_reduce_by, np.add),
)

SUM: Final = Columns(
    "sum",
    lift=_lift_total,
    combine=_add,
    lower=_lower_total,
    align=_align_totals,
    reduce=_reduce_totals,
)
"""Whole columns stay int64 and exact. Totals in between may be of any size; one that is answered
and does not fit into int64 raises when it is lowered."""

MEAN: Final = Columns("mean", lift=_lift_average, combine=_add_averages, lower=_lower_average)

GEOMETRIC_MEAN: Final = Columns(
    "geometric_mean", lift=_lift_logarithm, combine=_add_averages, lower=_lower_geometric
)


# Spread


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


# Order


def _ordered(monoid: str, values: Column) -> Column:
    column = as_column(values)
    match column.dtype.kind:
        case "f" | "M" | "m":
            if (column != column).any():
                to_ordered(monoid, column[column != column][0])
        case "O":
            column = _each(partial(to_ordered, monoid), column)
    return column


def _pick(ufunc: np.ufunc, older: Column, newer: Column) -> Column:
    if older.dtype != newer.dtype:
        older, newer = _common(older, newer)
    return _comparing(ufunc, older, newer)


def _comparing(pick: Callable[[Column, Column], Any], column: Column, other: Column) -> Column:
    try:
        answer: Column = pick(column, other)
    except TypeError as error:
        raise InvalidValueError(
            f"min, max or range: {error}; keep to values that compare with each other in a column"
        ) from None
    return answer


def _lift_ordered(monoid: str, values: Column) -> State:
    return (_ordered(monoid, values),)


def _combine_ordered(ufunc: np.ufunc, older: State, newer: State) -> State:
    return (_pick(ufunc, older[0], newer[0]),)


def _reduce_ordered(ufunc: np.ufunc, state: State, starts: Column) -> State:
    return (_comparing(ufunc.reduceat, state[0], starts),)


def _extreme(name: str, ufunc: np.ufunc) -> Columns:
    return Columns(
        name,
        lift=partial(_lift_ordered, name),
        combine=partial(_combine_ordered, ufunc),
        lower=_only,
        align=_align_values,
        reduce=partial(_reduce_ordered, ufunc),
    )


def _lift_range(values: Column) -> State:
    column = _ordered("range", values)
    if column.dtype.kind == "b":
        column = column.astype(np.int64)
    try:
        column - column
    except TypeError:
        raise InvalidValueError(
            f"range: {shorten(column[0])} or a value next to it has no difference; map the column "
            "to numbers or datetimes"
        ) from None
    return column, column


def _widen(older: State, newer: State) -> State:
    return _pick(np.minimum, older[0], newer[0]), _pick(np.maximum, older[1], newer[1])


def _reduce_ranges(state: State, starts: Column) -> State:
    return (
        *_reduce_ordered(np.minimum, state[:1], starts),
        *_reduce_ordered(np.maximum, state[1:], starts),
    )


def _lower_range(state: State) -> Column:
    least, greatest = state
    with np.errstate(over="ignore", invalid="ignore"):
        difference: Column = greatest - least
    if difference.dtype == np.int64 and (difference < 0).any():
        raise InvalidValueError(
            "range: a difference does not fit into int64; give the column as floats, or aggregate "
            "it with columns.objects(monoids.range)"
        )
    return difference


MIN: Final = _extreme("min", np.minimum)
MAX: Final = _extreme("max", np.maximum)
RANGE: Final = Columns(
    "range",
    lift=_lift_range,
    combine=_widen,
    lower=_lower_range,
    align=_align_values,
    reduce=_reduce_ranges,
)


# Sequence


def _lift_itself(values: Column) -> State:
    return (as_column(values),)


def _older(older: State, newer: State) -> State:
    return older


def _newer(older: State, newer: State) -> State:
    return newer


def _last_of_each(state: State, starts: Column) -> State:
    return rows(state, np.append(starts[1:], len(state[0])) - 1)


def _lift_truth(values: Column) -> State:
    column = as_column(values)
    return (_each(bool, column) if column.dtype == object else column.astype(np.bool_),)


def _truth(name: str, ufunc: np.ufunc) -> Columns:
    return Columns(
        name,
        lift=_lift_truth,
        combine=partial(_combine_by, ufunc),
        lower=_only,
        reduce=partial(_reduce_by, ufunc),
    )


FIRST: Final = Columns(
    "first", lift=_lift_itself, combine=_older, lower=_only, align=_align_values, reduce=rows
)
LAST: Final = Columns(
    "last",
    lift=_lift_itself,
    combine=_newer,
    lower=_only,
    align=_align_values,
    reduce=_last_of_each,
)
ANY: Final = _truth("any", np.logical_or)
ALL: Final = _truth("all", np.logical_and)
