"""A shelf of a simulated replica: pages in a dictionary, which the simulator does not count."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.pipeline.machine.tuples import Row


class MemoryShelf:
    """Pages by number."""

    def __init__(self) -> None:
        self.pages: dict[int, tuple[Row, ...]] = {}
        self._next = 0

    def put(self, rows: Sequence[Row]) -> int:
        self._next += 1
        self.pages[self._next] = tuple(rows)
        return self._next

    def get(self, page: int) -> Sequence[Row]:
        return self.pages[page]

    def drop(self, page: int) -> None:
        del self.pages[page]
