"""Any columns made to leave out NULLs: a row whose values were all NULL has no state.

Used by the aggregates of windows on Spark. A state is a bool for each row, whether it is present,
and the fields of the inner state. Where a row is absent these hold filler (0, None in columns of
objects), which is never handed to the inner monoid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from holdfast.windows.columns.core import Column, Columns, State, put, reduce_segments, rows
from holdfast.windows.columns.values import as_objects, narrow

__all__ = ["nullable", "present_stretches", "spread"]


def nullable(inner: Columns) -> Columns:
    """The same monoid over columns in which None stands for NULL; only NULLs answer None."""
    return Columns(
        f"nullable({inner.name})",
        lift=partial(_lift, inner),
        combine=partial(_combine, inner),
        lower=partial(_lower, inner),
        align=partial(_align, inner),
        compares=inner.compares,
        reduce=partial(_reduce, inner),
        addends={
            name: replace(addend, read=partial(_read_present, addend.read))
            for name, addend in inner.addends.items()
        },
    )


def spread(state: State, present: Column) -> State:
    """A nullable state: the rows of an inner state, in order, where `present`, filler elsewhere."""
    if len(state[0]) == len(present):
        return (present, *state)
    return (present, *(_spread_field(field, present) for field in state))


def _spread_field(field: Column, present: Column) -> Column:
    # Zeros of objects would be ints, in a column that may be compared with strings.
    make = np.empty if field.dtype == object else np.zeros
    full: Column = make(len(present), field.dtype)
    full[present] = field
    return full


def present_stretches(present: Column, starts: Column) -> tuple[Column, Column]:
    """Which stretches of rows have one that is present, and where, counted in present rows only,
    these begin."""
    counts = np.add.reduceat(present, starts, dtype=np.int64)
    has = counts > 0
    return has, (np.cumsum(counts) - counts)[has]


def _lift(inner: Columns, values: Column) -> State:
    if values.dtype != object:
        return (np.ones(len(values), np.bool_), *inner.lift(values))
    present = np.array([value is not None for value in values], np.bool_)
    return spread(inner.lift(narrow(values[present])), present)


def _combine(inner: Columns, older: State, newer: State) -> State:
    in_older, in_newer = older[0], newer[0]
    if in_older.all() and in_newer.all():
        return (in_older, *inner.combine(older[1:], newer[1:]))
    if any(a.dtype != b.dtype for a, b in zip(older, newer, strict=True)):
        older, newer = _align(inner, older, newer)
    taken = [np.where(in_older, a, b) for a, b in zip(older[1:], newer[1:], strict=True)]
    union = (in_older | in_newer, *taken)
    both = np.flatnonzero(in_older & in_newer)
    if not len(both):
        return union
    joined = inner.combine(rows(older[1:], both), rows(newer[1:], both))
    return put(nullable(inner), union, both, (np.ones(len(both), np.bool_), *joined))


def _align(inner: Columns, older: State, newer: State) -> tuple[State, State]:
    aligned = inner.align(rows(older[1:], older[0]), rows(newer[1:], newer[0]))
    return spread(aligned[0], older[0]), spread(aligned[1], newer[0])


def _reduce(inner: Columns, state: State, starts: Column) -> State:
    present = state[0]
    if present.all():
        return (present[starts], *reduce_segments(inner, state[1:], starts))
    has, inner_starts = present_stretches(present, starts)
    return spread(reduce_segments(inner, rows(state[1:], present), inner_starts), has)


def _read_present(read: Callable[[State], Column], state: State) -> Column:
    """What adds up, with nothing added where a row is absent."""
    present = state[0]
    if present.all():
        return read(state[1:])
    column = np.zeros(len(present))
    column[present] = read(rows(state[1:], present))
    return column


def _lower(inner: Columns, state: State) -> Column:
    present = state[0]
    if present.all():
        return inner.lower(state[1:])
    answers = np.empty(len(present), object)
    answers[present] = as_objects(inner.lower(rows(state[1:], present)))
    return answers
