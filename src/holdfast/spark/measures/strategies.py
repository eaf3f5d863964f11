"""Strategies of a measure: counting, folding values, picking one by its time.

Used by `Measure`. A way turns rows into states, one for each stretch of rows, and states into
answers; combining states is left to its columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from reprlib import repr as shorten
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from holdfast.errors import InvalidValueError
from holdfast.spark.measures.arrow_codecs import Fixed, Form, Reader, Writer, spread_values
from holdfast.windows.columns import (
    COUNT,
    Column,
    Columns,
    State,
    nullable,
    objects,
    present_stretches,
    reduce_segments,
    rows,
    spread,
    sql,
)
from holdfast.windows.columns.values import INT64
from holdfast.windows.monoid import Monoid

__all__ = ["Bounds", "Counting", "Folding", "Picking", "Stretches", "Way"]


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """Which rows of a batch belong together."""

    times: Column
    """Of every row of the batch, in microseconds."""
    order: Column | None
    """The rows, stretch after stretch; None: as they are."""
    starts: Column | None
    """Where in that order each stretch begins; none is empty. None: each row is one."""

    def arrange(self, column: Column) -> Column:
        """A column of the batch in the order of the stretches, in memory of its own."""
        return column.copy() if self.order is None else column[self.order]

    def __len__(self) -> int:
        return len(self.times if self.order is None else self.order)


class Way(Protocol):
    @property
    def columns(self) -> Columns: ...

    @property
    def nothing(self) -> int | None:
        """What is answered without rows."""

    def partial(self, values: pa.Array | None, stretches: Stretches) -> State: ...

    def answer(self, state: State) -> pa.Array: ...


@dataclass(frozen=True)
class Counting:
    """All rows, or those that have a value."""

    @property
    def columns(self) -> Columns:
        return COUNT

    @property
    def nothing(self) -> int:
        return 0

    def partial(self, values: pa.Array | None, stretches: Stretches) -> State:
        starts = stretches.starts
        if values is None or not values.null_count:
            if starts is None:
                return (np.ones(len(stretches), np.int64),)
            return (np.diff(starts, append=len(stretches)),)
        valid = stretches.arrange(_valid(values))
        if starts is None:
            return (valid.astype(np.int64),)
        return (np.add.reduceat(valid, starts, dtype=np.int64),)

    def answer(self, state: State) -> pa.Array:
        return Fixed(pa.int64()).write(state[0], None)


@dataclass(frozen=True)
class Bounds:
    """What a whole answer must lie between."""

    label: str
    greatest: int
    remedy: str

    def check(self, answers: Column) -> None:
        if not len(answers) or (answers.dtype == np.int64 and self.greatest >= INT64.max):
            return
        # Two's complement has one more below nought.
        least = -self.greatest - (self.greatest == INT64.max)
        for answer in (answers.min(), answers.max()):
            if not least <= answer <= self.greatest:
                raise InvalidValueError(f"{self.label}: {shorten(int(answer))} {self.remedy}")


@dataclass(frozen=True)
class Folding:
    """Values that are lifted, combined and lowered; NULLs are left out."""

    by: Columns | Monoid[Any, Any, Any]
    """A monoid runs row by row. (Its vectorised form cannot be sent to an executor.)"""
    reads: Reader
    writes: Writer
    bounds: Bounds | None = None
    gather: Callable[[Column, Column | None], State] | None = None
    """Stretches of a column as states, where there is a faster way than to lift each value."""
    least: int = 1
    """How many values an answer takes; above 1 for states that count them in their first field."""
    nothing: int | None = None

    @property
    def columns(self) -> Columns:
        return nullable(self._inner)

    @property
    def _inner(self) -> Columns:
        return self.by if isinstance(self.by, Columns) else objects(self.by)

    def partial(self, values: pa.Array | None, stretches: Stretches) -> State:
        assert values is not None
        starts = stretches.starts
        if not values.null_count:
            state = self._gather(stretches.arrange(self.reads.read(values)), starts)
            return spread(state, np.ones(len(state[0]), np.bool_))
        present = stretches.arrange(_valid(values))
        at = np.flatnonzero(present) if stretches.order is None else stretches.order[present]
        column = self.reads.read(values.take(pa.array(at)))
        if starts is not None:
            present, starts = present_stretches(present, starts)
        return spread(self._gather(column, starts), present)

    def _gather(self, column: Column, starts: Column | None) -> State:
        if self.gather is not None:
            return self.gather(column, starts)
        state = self._inner.lift(column)
        return state if starts is None else reduce_segments(self._inner, state, starts)

    def answer(self, state: State) -> pa.Array:
        valid, inner = state[0], state[1:]
        if not valid.all():
            inner = rows(inner, valid)
        if self.least > 1 and len(inner[0]):
            enough = inner[0] >= self.least
            valid = valid.copy()
            valid[valid] = enough
            inner = rows(inner, enough)
        answers = self._inner.lower(inner)
        if self.bounds is not None:
            self.bounds.check(answers)
        if valid.all():
            return self.writes.write(answers, None)
        if self.nothing is None:
            return self.writes.write(answers, valid)
        full = spread_values(answers, valid)
        full[~valid] = self.nothing
        return self.writes.write(full, None)


@dataclass(frozen=True)
class Picking:
    """The value at the least time, or at the greatest; NULL is a value."""

    latest: bool
    form: Form
    nothing: None = None

    @property
    def columns(self) -> Columns:
        return sql.LATEST if self.latest else sql.EARLIEST

    def partial(self, values: pa.Array | None, stretches: Stretches) -> State:
        assert values is not None
        at, starts = np.arange(len(stretches)), stretches.starts
        if starts is not None:
            # Values are looked at only where several have the same time.
            at, starts = sql.candidates(self._pick, stretches.arrange(stretches.times), starts)
        if stretches.order is not None:
            at = stretches.order[at]
        picked = values.take(pa.array(at))
        present, column = spread((self.form.read(picked.drop_null()),), _valid(picked))
        state = (stretches.times[at], present, column)
        return state if starts is None else reduce_segments(self.columns, state, starts)

    @property
    def _pick(self) -> np.ufunc:
        return np.maximum if self.latest else np.minimum

    def answer(self, state: State) -> pa.Array:
        _, present, column = state
        return self.form.write(column[present], present)


def _valid(values: pa.Array) -> Column:
    valid: Column = values.is_valid().to_numpy(zero_copy_only=False)
    return valid
