"""Tables over keys as a monoid: what a shard window has for leaves.

Used by `shard`. A table holds rows only for keys that are present; cost follows their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from holdfast.windows.columns import Column, Columns, State, put, rows
from holdfast.windows.monoid import Monoid
from holdfast.windows.values import itself

__all__ = ["NO_KEYS", "Table", "Tables", "same"]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """States of some keys: row i of every state belongs to the key with number `ids[i]`."""

    ids: Column
    """Increasing. A key that is not here has no state; no value stands for that."""
    states: tuple[State, ...]
    """One for each aggregate."""

    def __len__(self) -> int:
        return len(self.ids)


SPARSE: Final = 4
"""Numbers per key from which on they are sorted and not marked."""

NO_KEYS: Final = Table(np.empty(0, np.int64), ())


class Tables:
    """Combines tables that hold the same aggregates, and counts how often."""

    def __init__(self, columns: Sequence[Columns], combines: int = 0) -> None:
        self.columns = tuple(columns)
        self.combines = combines
        self.monoid: Monoid[Table, Table, Table] = Monoid(
            "table", identity=NO_KEYS, lift=itself, combine=self.combine, lower=itself
        )

    def combine(self, older: Table, newer: Table) -> Table:
        if not len(newer.ids):
            return older
        if not len(older.ids):
            return newer
        ids = older.ids
        if same(ids, newer.ids):
            each = zip(self.columns, older.states, newer.states, strict=True)
            combined = Table(ids, tuple([columns.combine(a, b) for columns, a, b in each]))
        else:
            combined = self._merge(older, newer)
        self.combines += 1
        return combined

    def _merge(self, older: Table, newer: Table) -> Table:
        """The union of the keys: rows of keys in both are combined, the others taken over."""
        ids, union = _unite(older.ids, newer.ids)
        # Tables share the numbers where they can: the next combine then need not compare them.
        for table in (older, newer):
            if len(table) == len(ids):
                ids = table.ids
        each = zip(self.columns, older.states, newer.states, strict=True)
        return Table(ids, tuple([union.merge(columns, a, b) for columns, a, b in each]))


@dataclass(frozen=True, slots=True)
class _Union:
    """Where the rows of a union come from."""

    taken: Column
    """For each row of the union, one that has its key, out of the older rows and then the newer."""
    older: Column
    """The older row of each key that is in both."""
    newer: Column
    """The newer row of each of these."""
    place: Column
    """The row of the union for each of these."""

    def merge(self, columns: Columns, older: State, newer: State) -> State:
        if any(a.dtype != b.dtype for a, b in zip(older, newer, strict=True)):
            older, newer = columns.align(older, newer)
        pairs = zip(older, newer, strict=True)
        union = tuple([np.concatenate(pair)[self.taken] for pair in pairs])
        if not len(self.place):
            return union
        joined = columns.combine(rows(older, self.older), rows(newer, self.newer))
        return put(columns, union, self.place, joined)


def _unite(older: Column, newer: Column) -> tuple[Column, _Union]:
    """The numbers in either, increasing, and where their rows come from."""
    lowest = min(int(older[0]), int(newer[0]))
    span = max(int(older[-1]), int(newer[-1])) - lowest + 1
    if span > SPARSE * (len(older) + len(newer)):
        return _unite_sparse(older, newer)
    # Numbers lie dense, as those of a shard mostly do: mark them instead of sorting.
    marks = np.zeros(span, np.int8)
    marks[older - lowest] = 1
    marks[newer - lowest] += 2
    present = np.flatnonzero(marks)
    marks = marks[present]
    in_older, in_newer = (marks & 1).astype(np.bool_), marks > 1
    rows_older, rows_newer = np.cumsum(in_older) - 1, np.cumsum(in_newer) - 1
    place = np.flatnonzero(marks == 3)
    union = _Union(
        taken=np.where(in_older, rows_older, rows_newer + len(older)),
        older=rows_older[place],
        newer=rows_newer[place],
        place=place,
    )
    return present + lowest, union


def _unite_sparse(older: Column, newer: Column) -> tuple[Column, _Union]:
    both = np.concatenate((older, newer))
    order = np.argsort(both, kind="stable")
    both = both[order]
    first = np.append(True, both[1:] != both[:-1])
    twice = np.flatnonzero(~first)
    union = _Union(
        taken=order[first],
        older=order[twice - 1],
        newer=order[twice] - len(older),
        place=np.cumsum(first)[twice] - 1,
    )
    return both[first], union


def same(a: Column, b: Column) -> bool:
    """Whether two columns of one type are equal."""
    return a is b or (len(a) == len(b) and bool((a == b).all()))
