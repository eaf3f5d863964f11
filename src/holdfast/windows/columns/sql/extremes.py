"""The least and the greatest value as SQL orders them: NaN is greater than every other number.

Used by the aggregates of windows on Spark; `ordering` has the forms that refuse NaN. Values of a
column are all of one kind: ints (of any size), floats, bools, strings or bytes.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from holdfast.windows.columns.core import Column, Columns, State
from holdfast.windows.columns.values import INT64, align_values, as_objects, common, narrow

__all__ = ["GREATEST", "LEAST", "span"]

# fmin passes NaN over unless there is nothing else, maximum takes it.
_FIELDS: Final = (np.fmin, np.maximum)


def _lift(values: Column) -> State:
    return (values,)


def _combine(picks: tuple[np.ufunc, ...], older: State, newer: State) -> State:
    each = zip(picks, older, newer, strict=True)
    return tuple([pick(*common(a, b)) for pick, a, b in each])


def _reduce(picks: tuple[np.ufunc, ...], state: State, starts: Column) -> State:
    return tuple([pick.reduceat(a, starts) for pick, a in zip(picks, state, strict=True)])


def _lower(state: State) -> Column:
    # 0.0 for -0.0: they are equal, and which of them is picked depends on the order.
    return state[0] + 0.0 if state[0].dtype.kind == "f" else state[0].copy()


def _extreme(name: str, pick: np.ufunc) -> Columns:
    return Columns(
        name,
        lift=_lift,
        combine=partial(_combine, (pick,)),
        lower=_lower,
        align=align_values,
        reduce=partial(_reduce, (pick,)),
    )


LEAST: Final = _extreme("least", np.fmin)
GREATEST: Final = _extreme("greatest", np.maximum)


def span(unit: int = 1) -> Columns:
    """The greatest value less the least one, in numbers or whole counts of `unit`."""
    return Columns(
        f"span({unit})",
        lift=_lift_span,
        combine=partial(_combine, _FIELDS),
        lower=partial(_lower_span, unit),
        align=align_values,
        reduce=partial(_reduce, _FIELDS),
    )


def _lift_span(values: Column) -> State:
    return values, values


def _lower_span(unit: int, state: State) -> Column:
    least, greatest = state
    if least.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            return (greatest - least) + 0.0
    difference: Column = greatest - least
    if difference.dtype == np.int64 and len(difference):
        if (difference >= 0).all() and int(difference.max()) * unit <= INT64.max:
            return difference * unit
        difference = as_objects(greatest) - as_objects(least)
    return narrow(difference * unit)
