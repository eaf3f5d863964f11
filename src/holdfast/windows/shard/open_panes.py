"""The panes of a shard window that still take rows.

Used by `window`. They may lie on a shelf (`saved`) and are fetched from there when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from holdfast.windows.columns import Column
from holdfast.windows.shard.tables import Table

__all__ = ["OpenPanes"]


class OpenPanes:
    """A table for each open pane, by its number."""

    def __init__(
        self,
        numbers: Iterable[int] = (),
        rows: int = 0,
        fetch: Callable[[int], Table] | None = None,
    ) -> None:
        """`numbers` are panes that `fetch` can get; `rows` is how many rows their tables have."""
        self._tables: dict[int, Table | None] = dict.fromkeys(numbers)
        self._queue = list(self._tables)
        heapify(self._queue)
        self.rows = rows
        self.fetch = fetch
        self.changed: set[int] = set()
        """Panes put or taken out; whoever saves them clears it."""

    def __len__(self) -> int:
        return len(self._tables)

    def __contains__(self, pane: int) -> bool:
        return pane in self._tables

    @property
    def numbers(self) -> list[int]:
        return list(self._tables)

    @property
    def oldest(self) -> int | None:
        return self._queue[0] if self._queue else None

    def get(self, pane: int) -> Table | None:
        if pane not in self._tables:
            return None
        table = self._tables[pane]
        if table is None:
            assert self.fetch is not None
            table = self._tables[pane] = self.fetch(pane)
        return table

    def put(self, pane: int, table: Table) -> None:
        present = self.get(pane)
        if present is None:
            heappush(self._queue, pane)
        else:
            self.rows -= len(present)
        self._tables[pane] = table
        self.rows += len(table)
        self.changed.add(pane)

    def remove_oldest(self) -> None:
        pane = self._queue[0]
        table = self.get(pane)
        assert table is not None
        heappop(self._queue)
        del self._tables[pane]
        self.rows -= len(table)
        self.changed.add(pane)

    def ids(self) -> list[Column]:
        """The numbers of the keys in each pane."""
        return [table.ids for table in map(self.get, self.numbers) if table is not None]

    def copy(self) -> OpenPanes:
        copy = OpenPanes((), self.rows, self.fetch)
        copy._tables, copy._queue = dict(self._tables), list(self._queue)
        return copy
