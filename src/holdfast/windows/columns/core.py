"""A monoid over columns, and what shard windows do with states of any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.windows.columns.values import Column, State, as_objects
from holdfast.windows.monoid import Addend, Monoid

__all__ = [
    "Column",
    "Columns",
    "State",
    "addend_at",
    "columns_of",
    "combine_by",
    "halve",
    "objects",
    "only",
    "put",
    "reduce_by",
    "reduce_segments",
    "rows",
]


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
    compares: bool = False
    """Whether `combine` compares values, so that those of a column must compare with each other."""
    reduce: Callable[[State, Column], State] | None = None
    """What `reduce_segments` does, where this monoid has a faster way."""
    addends: Mapping[str, Addend] = field(default_factory=dict)
    """What of a state adds up, by name; read as a column of floats."""


def columns_of(monoid: Monoid[Any, Any, Any]) -> Columns:
    """The vectorised form of a monoid; one that has none runs row by row."""
    return objects(monoid) if monoid.columns is None else monoid.columns


def objects(monoid: Monoid[Any, Any, Any]) -> Columns:
    """Any monoid over columns of Python objects: right for all, fast for none."""
    lift = np.frompyfunc(monoid.lift, 1, 1)
    combine = np.frompyfunc(monoid.combine, 2, 1)
    lower = np.frompyfunc(monoid.lower, 1, 1)

    def quietly(ufunc: np.ufunc, *operands: Column) -> Column:
        # Overflows of Python's own floats are no news to NumPy.
        with np.errstate(all="ignore"):
            answer: Column = ufunc(*operands)
        return answer

    return Columns(
        monoid.name,
        lift=lambda values: (quietly(lift, as_objects(values)),),
        combine=lambda older, newer: (quietly(combine, older[0], newer[0]),),
        lower=lambda state: quietly(lower, state[0]),
    )


def rows(state: State, at: Column | slice) -> State:
    """Some rows of a state."""
    return tuple([field[at] for field in state])


def put(columns: Columns, state: State, at: Column, new: State) -> State:
    """Write rows into a state that belongs to the caller; answers it, perhaps in wider types."""
    if any(old.dtype != fresh.dtype for old, fresh in zip(state, new, strict=True)):
        state, new = columns.align(state, new)
    for old, fresh in zip(state, new, strict=True):
        old[at] = fresh
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
    return halve(columns, state, starts)


def halve(columns: Columns, state: State, starts: Column) -> State:
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


def only(state: State) -> Column:
    return state[0].copy()


def addend_at(place: int, state: State) -> Column:
    """A field of a state that adds up, as floats."""
    addend: Column = state[place].astype(np.float64)
    return addend


def combine_by(ufunc: np.ufunc, older: State, newer: State) -> State:
    return (ufunc(older[0], newer[0]),)


def reduce_by(ufunc: np.ufunc, state: State, starts: Column) -> State:
    return (ufunc.reduceat(state[0], starts),)
