"""Columns that compare values: as `monoids.ordering`, vectorised."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from reprlib import repr as shorten
from typing import Any, Final

import numpy as np

from holdfast.errors import InvalidValueError
from holdfast.windows.columns.core import (
    Column,
    Columns,
    State,
    only,
)
from holdfast.windows.columns.values import (
    align_values,
    as_column,
    common,
    each,
)
from holdfast.windows.values import to_ordered

__all__ = ["MAX", "MIN", "RANGE"]


def _ordered(monoid: str, values: Column) -> Column:
    column = as_column(values)
    match column.dtype.kind:
        case "f" | "M" | "m":
            if (column != column).any():
                to_ordered(monoid, column[column != column][0])
        case "O":
            column = each(partial(to_ordered, monoid), column)
    return column


def _pick(ufunc: np.ufunc, older: Column, newer: Column) -> Column:
    if older.dtype != newer.dtype:
        older, newer = common(older, newer)
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
        lower=only,
        align=align_values,
        compares=True,
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
    align=align_values,
    compares=True,
    reduce=_reduce_ranges,
)
