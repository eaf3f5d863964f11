"""The stable segments a line still keeps, oldest first; what does not fit in memory is spilled.

Used by `Line`. A segment lies on the shelf under its number, written once and deleted once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from holdfast.errors import InvalidArgumentError
from holdfast.tuples import Row, Segment

__all__ = ["Shelf", "Spool"]


class Shelf(Protocol):
    """Where segments go that memory has no room for."""

    def write(self, number: int, rows: tuple[Row, ...]) -> None: ...

    def read(self, number: int) -> tuple[Row, ...]: ...

    def delete(self, number: int) -> None: ...


@dataclass(slots=True)
class _Kept:
    number: int
    start: int
    end: int
    rows: tuple[Row, ...] | None
    """None if they lie on the shelf."""


class Spool:
    """A queue of segments of which the newest `in_memory` are at hand."""

    def __init__(self, shelf: Shelf | None = None, in_memory: int | None = None) -> None:
        if (shelf is None) != (in_memory is None):
            raise InvalidArgumentError("spool: a shelf and in_memory go together; give both")
        if in_memory is not None and in_memory < 1:
            raise InvalidArgumentError(f"spool: in_memory is {in_memory}; give at least 1 segment")
        self._shelf = shelf
        self._in_memory = in_memory
        self._kept: deque[_Kept] = deque()
        self._next = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def in_memory(self) -> int:
        """How many segments are not on the shelf."""
        return sum(1 for kept in self._kept if kept.rows is not None)

    @property
    def start(self) -> int | None:
        """Where the oldest segment begins; None without any."""
        return self._kept[0].start if self._kept else None

    @property
    def first_rows(self) -> int | None:
        """Where the oldest segment begins that has rows; None without any."""
        return next((kept.start for kept in self._kept if kept.rows != ()), None)

    def append(self, segment: Segment) -> None:
        last = self._kept[-1] if self._kept else None
        if last is not None and last.rows == segment.rows == () and last.end == segment.start:
            # So long silence costs nothing.
            last.end = segment.end
            return
        self._kept.append(_Kept(self._next, segment.start, segment.end, segment.rows))
        self._next += 1
        if self._shelf is None or self._in_memory is None or len(self._kept) <= self._in_memory:
            return
        spilled = self._kept[-1 - self._in_memory]
        if spilled.rows is not None:
            self._shelf.write(spilled.number, spilled.rows)
            spilled.rows = None

    def drop_before(self, boundary: int) -> None:
        """Let go of the segments that end by then."""
        while self._kept and self._kept[0].end <= boundary:
            gone = self._kept.popleft()
            if gone.rows is None and self._shelf is not None:
                self._shelf.delete(gone.number)

    def since(self, boundary: int) -> Iterator[Segment]:
        """The segments with something at or after the boundary, oldest first."""
        newer: list[_Kept] = []
        for kept in reversed(self._kept):
            if kept.end <= boundary:
                break
            newer.append(kept)
        for kept in reversed(newer):
            yield Segment(kept.start, kept.end, self._rows(kept)).after(boundary)

    def _rows(self, kept: _Kept) -> tuple[Row, ...]:
        if kept.rows is not None:
            return kept.rows
        assert self._shelf is not None
        return self._shelf.read(kept.number)
