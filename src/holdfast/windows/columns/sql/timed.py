"""The value at the least or the greatest time, whatever the order rows come in.

Used by the aggregates of windows on Spark. Where times are equal the first is the least value and
the last the greatest, and NULL only where there is no other: the answer depends on the set of rows
alone. A state is the time (int64), whether there is a value, and the value (filler if there is
none), all of one kind with an order: ints, bools, strings or bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from holdfast.windows.columns.core import Column, Columns, State, rows
from holdfast.windows.columns.nullable import present_stretches
from holdfast.windows.columns.values import align_values, common, narrow

__all__ = ["EARLIEST", "LATEST", "candidates"]


@dataclass(frozen=True)
class _Direction:
    pick: np.ufunc
    """Which of two times or values is kept."""
    precedes: np.ufunc
    """Whether the one is to be kept before the other."""


def candidates(pick: np.ufunc, times: Column, starts: Column) -> tuple[Column, Column]:
    """The rows at the picked time of each stretch, and where among these each stretch begins."""
    lengths = np.diff(starts, append=len(times))
    at = times == np.repeat(pick.reduceat(times, starts), lengths)
    return np.flatnonzero(at), present_stretches(at, starts)[1]


def _lift(pairs: Column) -> State:
    times = np.array([time for time, _ in pairs], np.int64)
    has = np.array([value is not None for _, value in pairs], np.bool_)
    values = np.fromiter((value for _, value in pairs), dtype=object, count=len(pairs))
    return times, has, narrow(values) if has.all() else values


def _combine(direction: _Direction, older: State, newer: State) -> State:
    older_values, newer_values = common(older[2], newer[2])
    take = direction.precedes(newer[0], older[0])
    tied = np.flatnonzero(newer[0] == older[0])
    if len(tied):
        has = newer[1][tied]
        take[tied] = has & ~older[1][tied]
        both = tied[has & older[1][tied]]
        take[both] = direction.precedes(newer_values[both], older_values[both])
    return (
        np.where(take, newer[0], older[0]),
        np.where(take, newer[1], older[1]),
        np.where(take, newer_values, older_values),
    )


def _reduce(direction: _Direction, state: State, starts: Column) -> State:
    at, starts = candidates(direction.pick, state[0], starts)
    times, has, values = rows(state, at)
    if len(at) == len(starts):
        return times, has, values
    any_has, value_starts = present_stretches(has, starts)
    picked = values[starts]
    if len(value_starts):
        picked[any_has] = direction.pick.reduceat(values[has], value_starts)
    return times[starts], any_has, picked


def _lower(state: State) -> Column:
    _, has, values = state
    if has.all():
        return values.copy()
    answers = np.empty(len(has), object)
    answers[has] = values[has]
    return answers


def _timed(name: str, direction: _Direction) -> Columns:
    return Columns(
        name,
        lift=_lift,
        combine=partial(_combine, direction),
        lower=_lower,
        align=align_values,
        reduce=partial(_reduce, direction),
    )


EARLIEST: Final = _timed("earliest", _Direction(np.minimum, np.less))
LATEST: Final = _timed("latest", _Direction(np.maximum, np.greater))
"""Their `lift` takes a column of pairs of a time and a value, None for NULL."""
