"""Folding of the panes of an approximate shard window into buckets.

Used by `window`. One bucket serves all keys: a pane is folded only if that is right for each of
them. A window keeps a bucket as long as it reaches into it, so that it has too much rather than too
little, and what it has too much of is at most what is in its oldest bucket: the sum there, or,
where values may be negative, the sum of what the panes of the bucket came to without their signs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from holdfast.errors import InvalidArgumentError
from holdfast.windows.amta import Amta
from holdfast.windows.approximation.buckets import quotient_within
from holdfast.windows.approximation.coarsening import coarsen
from holdfast.windows.approximation.methods import (
    BlockMaxima,
    Hops,
    MaxError,
    MaxLeaves,
    Method,
    absolute_limits,
    check_methods,
    only,
)
from holdfast.windows.columns import Column, Columns, State
from holdfast.windows.columns.core import combine_by
from holdfast.windows.monoid import Addend
from holdfast.windows.shard.panes import Panes
from holdfast.windows.shard.samples import KeySamples
from holdfast.windows.shard.tables import Table

__all__ = ["PaneBuckets", "check_pane_methods"]


def _no_column(*_: Any) -> Any:
    raise NotImplementedError("amounts are neither lifted nor lowered")


AMOUNT: Final = Columns(
    "amount", lift=_no_column, combine=partial(combine_by, np.add), lower=_no_column
)
"""The sum over panes of what they came to without its sign."""


@dataclass(frozen=True)
class PaneDimension:
    """Something that adds up over panes, with a bound on its error."""

    name: str
    aggregate: int
    addend: Addend
    amount: int | None
    """Where in a state its amount is; None if it is never negative and is its own amount."""
    relative: float | None
    absolute: float
    quotient: float | None
    """For the former of two in a row of which the answer is the quotient: the bound on that."""

    def read(self, table: Table) -> Column:
        column: Column = self.addend.read(table.states[self.aggregate])
        return column

    def allows(self, values: Column, errors: Column) -> Column:
        """Where values that may be wrong by so much are within the bound all the same."""
        allowed: Any = self.absolute
        with np.errstate(invalid="ignore"):
            if self.relative is not None:
                allowed = np.maximum(allowed, self.relative * (np.abs(values) - errors))
            within: Column = errors <= allowed
        return within

    def amounts(self, table: Table) -> Column:
        return self.read(table) if self.amount is None else table.states[self.amount][0]


def check_pane_methods(approximate: Method | Sequence[Method]) -> tuple[Method, ...]:
    """The methods, if windows in time can use them."""
    methods = check_methods(approximate)
    for kind, name in ((Hops, "hops"), (BlockMaxima, "block_maxima")):
        if only(kind, methods) is not None:
            raise InvalidArgumentError(
                f"approximate: {name} goes with windows of single updates (policy=...); a window "
                "in time evicts one pane after the other, for many keys at once. Take max_error "
                "or max_leaves"
            )
    return methods


class PaneBuckets:
    """Knows which panes are in which leaf, and whether the newest leaf may take another one."""

    def __init__(
        self,
        approximate: Method | Sequence[Method],
        aggregates: Mapping[str, Columns],
        panes: Panes,
    ) -> None:
        """`panes`: those of one span."""
        methods = check_pane_methods(approximate)
        leaves, bound = only(MaxLeaves, methods), only(MaxError, methods)
        (span,) = panes.spans
        due = panes.due(span, 0)
        self._panes = panes
        self._covered = due - panes.first(span, due)
        """How many panes the window covers."""
        self.limit = None if leaves is None else leaves.limit
        self.dimensions = () if bound is None else _dimensions(bound, aggregates)
        self.confidence = 0.0 if bound is None else bound.confidence
        self.bounded = bound is not None
        self._too_long = None if bound is None else _too_long(bound, aggregates, span.size)
        """By how much time a window may be too long, where that is bounded."""
        self._amounts = sum(dimension.amount is not None for dimension in self.dimensions)
        relative = [d for d in self.dimensions if d.relative is not None]
        self._samples = KeySamples(len(relative))
        self.starts: list[int] = []
        """The first pane of each leaf, oldest first."""
        self.next = 0
        """The pane that follows the newest one."""

    @property
    def amounts(self) -> list[Columns]:
        """The columns that tables of leaves have beside those of the aggregates."""
        return [AMOUNT] * self._amounts

    def as_leaf(self, table: Table) -> Table:
        """The table of a pane with amounts."""
        if not self._amounts or not len(table):
            return table
        amounts: list[State] = [
            (np.abs(dimension.read(table)),)
            for dimension in self.dimensions
            if dimension.amount is not None
        ]
        return Table(table.ids, (*table.states, *amounts))

    def insert(self, window: Amta[Table, Table, Table], pane: int, table: Table) -> None:
        """Put the leaf of a pane into the window, in a bucket or as one of its own."""
        if len(window) and self._folds(window, pane, table):
            window.fold(table)
        else:
            if self.limit is not None:
                self._join_leaves(window, self.limit - 1)
            window.insert(table)
            self.starts.append(pane)
        self.next = pane + 1

    def _folds(self, window: Amta[Table, Table, Table], pane: int, table: Table) -> bool:
        count = self.next - self.starts[-1]
        # One leaf is the newest, which grows; the others are full.
        if self.limit is not None and count * (self.limit - 1) < self._covered:
            return True
        if not self.bounded or self._is_too_long(self.starts[-1], pane):
            return False
        merged = window.monoid.combine(window.leaf(window.position - 1), table)
        if not len(merged) or not self.dimensions:
            return True
        nearest = iter(self._samples.nearest_zero(merged.ids, self.confidence))
        for dimension in self.dimensions:
            allowed: Any = dimension.absolute
            if dimension.relative is not None:
                # Less by as much as makes the bound certain when it is seen from the answer.
                share = dimension.relative / (1 + 2 * dimension.relative)
                allowed = np.maximum(allowed, share * next(nearest))
            if not (dimension.amounts(merged) <= allowed).all():
                return False
        return True

    def _is_too_long(self, first: int, last: int) -> bool:
        """Whether a window that reaches into a bucket of these panes may be too long."""
        if self._too_long is None:
            return False
        return self._panes.start(last) - self._panes.start(first) > self._too_long

    def evict(self, window: Amta[Table, Table, Table], first: int) -> None:
        """Let go of leaves that end before pane `first`."""
        if not self.starts:
            return
        # A leaf ends where the next one starts.
        bounds = [*self.starts[1:], self.next]
        count = bisect_right(bounds, first)
        if count:
            window.evict(count)
            del self.starts[:count]

    def constrain(self, window: Amta[Table, Table, Table]) -> None:
        """Join neighbours until there are no more leaves than there may be."""
        if self.limit is not None:
            self._join_leaves(window, self.limit)

    def _join_leaves(self, window: Amta[Table, Table, Table], most: int) -> None:
        while len(window) > most:
            first = window.evicted
            starts = [
                start
                for number, start in enumerate(self.starts, first)
                if not number & 1 or number == first
            ]
            coarsen(window)
            self.starts = starts

    def observe(self, table: Table) -> None:
        """Take what a window answers into the samples; what was learned of a key goes with it."""
        relative = [d for d in self.dimensions if d.relative is not None]
        if not relative:
            return
        if len(table):
            values = np.array([dimension.read(table) for dimension in relative])
            self._samples.observe(table.ids, values, self._covered)
        self._samples.forget_all_but(table.ids)

    def holds(self, window: Amta[Table, Table, Table], table: Table, first: int) -> Column:
        """For each key whether the answer of a window from pane `first` on is within the bound."""
        certain = np.ones(len(table), np.bool_)
        if not self.starts or self.starts[0] >= first or not len(table):
            return certain
        end = self.starts[1] if len(self.starts) > 1 else self.next
        certain &= not self._is_too_long(self.starts[0], end - 1)
        oldest = window.leaf(window.evicted)
        if not len(oldest):
            return certain
        known = [self._with_error(dimension, table, oldest) for dimension in self.dimensions]
        within = [each.allows(*pair) for each, pair in zip(self.dimensions, known, strict=True)]
        for place, dimension in enumerate(self.dimensions):
            if dimension.quotient is not None:
                # Both may be wrong by more than their share, and yet not the quotient.
                above, below = known[place : place + 2]
                with np.errstate(invalid="ignore"):
                    together = quotient_within(dimension.quotient, *above, *below)
                within[place : place + 2] = [each | together for each in within[place : place + 2]]
        for each in within:
            certain &= each
        return certain

    def _with_error(
        self, dimension: PaneDimension, table: Table, oldest: Table
    ) -> tuple[Column, Column]:
        """What a dimension comes to, and by how much that may be wrong."""
        error = np.zeros(len(table))
        error[np.searchsorted(table.ids, oldest.ids)] = dimension.amounts(oldest)
        return dimension.read(table), error

    def copy(self) -> PaneBuckets:
        other = object.__new__(PaneBuckets)
        other.__dict__.update(self.__dict__)
        other.starts = list(self.starts)
        other._samples = self._samples.copy()
        return other

    def saved(self) -> tuple[Any, ...]:
        return np.array(self.starts, np.int64), self.next, self._samples.saved()

    def restore(self, saved: tuple[Any, ...]) -> None:
        starts, self.next, samples = saved
        self.starts = starts.tolist()
        self._samples.restore(samples)


def _dimensions(bound: MaxError, aggregates: Mapping[str, Columns]) -> tuple[PaneDimension, ...]:
    if bound.of is not None and bound.of != "count":
        raise InvalidArgumentError(
            "max_error: of goes with windows of single updates (policy=...); windows in time bound "
            "the aggregates that add up, or with of='count' the time they cover"
        )
    found: list[tuple[str, int, Addend]] = []
    if bound.of is None:
        for position, (name, columns) in enumerate(aggregates.items()):
            for part, addend in columns.addends.items():
                label = name if len(columns.addends) == 1 else f"{name}.{part}"
                found.append((label, position, addend))
    limits = _absolute_limits(bound, [label for label, _, _ in found])
    dimensions = []
    amount = len(aggregates)
    divided = [label for label, _, addend in found if addend.of_quotient][::2]
    for label, position, addend in found:
        relative = bound.relative
        if relative is not None and addend.of_quotient:
            relative = relative / (2 + relative)
        dimensions.append(
            PaneDimension(
                label,
                position,
                addend,
                amount if addend.signed else None,
                relative,
                limits.get(label, 0.0),
                bound.relative if label in divided else None,
            )
        )
        amount += addend.signed
    return tuple(dimensions)


def _absolute_limits(bound: MaxError, labels: list[str]) -> dict[str, float]:
    if bound.absolute is None:
        return {}
    if not labels:
        raise InvalidArgumentError(
            "max_error: absolute goes with sums, counts and means, and there is none here; give a "
            "relative bound, which is then one on the time that a window covers"
        )
    return absolute_limits(bound, labels, labels)


def _too_long(bound: MaxError, aggregates: Mapping[str, Columns], size: int) -> float | None:
    """By how much a window may be too long for the sake of aggregates that do not add up."""
    others = [name for name, columns in aggregates.items() if not columns.addends]
    if not others and bound.of is None:
        return None
    if bound.relative is None:
        raise InvalidArgumentError(
            f"max_error: {', '.join(others)} does not add up, so that an absolute bound says "
            "nothing of it; add a relative one, which bounds the time that a window covers"
        )
    return bound.relative * size
