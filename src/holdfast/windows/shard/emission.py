"""Answers of a shard window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from holdfast.windows.columns import Column, Columns, State
from holdfast.windows.shard.registry import Names
from holdfast.windows.shard.tables import Table

__all__ = ["NOBODY", "Emission"]

NOBODY: Final = np.empty(0, np.int64)


class Emission:
    """What the window from `start` up to, not including, `end` answers: a row for each of its keys.

    Keys and answers are worked out when they are first read.
    """

    __slots__ = (
        "_answers",
        "_columns",
        "_table",
        "certain",
        "end",
        "idle",
        "names",
        "span",
        "start",
    )

    def __init__(
        self,
        span: int,
        start: int,
        end: int,
        table: Table,
        columns: Mapping[str, Columns],
        names: Names,
        idle: Column = NOBODY,
        certain: Column | None = None,
    ) -> None:
        self.span = span
        """Which of the spans of the shard window this is."""
        self.start = start
        self.end = end
        self.names = names
        self.idle = idle
        """Numbers of the keys that are still known and have no rows in this window."""
        self.certain = certain
        """For each key whether the answers are within the bound on their error, if there is one."""
        self._table = table
        self._columns = columns
        self._answers: dict[str, Column] = {}

    def saved(self) -> tuple[Any, ...]:
        """All but the columns and the names, as plain values."""
        return self.span, self.start, self.end, self._table, self.idle, self.certain

    def __len__(self) -> int:
        return len(self._table)

    @property
    def uncertain(self) -> int:
        """How many keys have answers that may be beyond the bound on their error."""
        return 0 if self.certain is None else len(self.certain) - int(self.certain.sum())

    @property
    def ids(self) -> Column:
        """The numbers of the keys in the window, increasing; `names` knows whose they are."""
        return self._table.ids

    @property
    def states(self) -> tuple[State, ...]:
        """For each aggregate the states of these keys; none when there are no keys."""
        return self._table.states

    @property
    def keys(self) -> Column:
        """The keys in the window, in the order they first appeared; not to be written to."""
        return self.names.read(self._table.ids)

    def __getitem__(self, name: str) -> Column:
        """One aggregate, a row for each of `keys`."""
        if name not in self._answers:
            columns = self._columns[name]
            position = list(self._columns).index(name)
            self._answers[name] = columns.lower(self._table.states[position])
        return self._answers[name]

    @property
    def results(self) -> dict[str, Column]:
        """All aggregates by name."""
        return {name: self[name] for name in self._columns}

    def __repr__(self) -> str:
        return f"Emission(start={self.start}, end={self.end}, keys={len(self)})"
