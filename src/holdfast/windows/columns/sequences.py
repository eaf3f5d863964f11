"""Columns that keep the first or last value or a truth: as `monoids.sequences`, vectorised."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from holdfast.windows.columns.core import (
    Column,
    Columns,
    State,
    combine_by,
    only,
    reduce_by,
    rows,
)
from holdfast.windows.columns.values import (
    align_values,
    as_column,
    each,
)

__all__ = ["ALL", "ANY", "FIRST", "LAST"]


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
    return (each(bool, column) if column.dtype == object else column.astype(np.bool_),)


def _truth(name: str, ufunc: np.ufunc) -> Columns:
    return Columns(
        name,
        lift=_lift_truth,
        combine=partial(combine_by, ufunc),
        lower=only,
        reduce=partial(reduce_by, ufunc),
    )


FIRST: Final = Columns(
    "first", lift=_lift_itself, combine=_older, lower=only, align=align_values, reduce=rows
)
LAST: Final = Columns(
    "last",
    lift=_lift_itself,
    combine=_newer,
    lower=only,
    align=align_values,
    reduce=_last_of_each,
)
ANY: Final = _truth("any", np.logical_or)
ALL: Final = _truth("all", np.logical_and)
