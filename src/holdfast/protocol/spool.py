"""The stable segments a line still keeps, oldest first. Used by `Line`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter

from holdfast.tuples import Segment

__all__ = ["Spool"]


class Spool:
    """A queue of segments in which a place is found in logarithmic time."""

    def __init__(self) -> None:
        self._kept: list[Segment] = []
        self._first = 0
        """Index of the oldest segment that is kept; those before it are dropped in bulk."""

    def __len__(self) -> int:
        return len(self._kept) - self._first

    @property
    def start(self) -> int | None:
        """Start of the oldest segment; None without any."""
        return self._kept[self._first].start if len(self) else None

    @property
    def first_rows(self) -> int | None:
        """Start of the oldest segment that has rows; None without any."""
        # Adjacent segments without rows are one, so this looks at two of them, or at gaps.
        return next((self._kept[n].start for n in self._range() if self._kept[n].rows), None)

    def _range(self) -> range:
        return range(self._first, len(self._kept))

    def append(self, segment: Segment) -> None:
        last = self._kept[-1] if len(self) else None
        if last is not None and last.rows == segment.rows == () and last.end == segment.start:
            # So long silence costs nothing.
            self._kept[-1] = Segment(last.start, segment.end, ())
            return
        self._kept.append(segment)

    def prepend(self, segment: Segment) -> None:
        """Put a segment before all others; it ends where they begin."""
        first = self._kept[self._first] if len(self) else None
        if first is not None and first.rows == segment.rows == () and first.start == segment.end:
            self._kept[self._first] = Segment(segment.start, first.end, ())
            return
        if self._first:
            self._first -= 1
            self._kept[self._first] = segment
        else:
            # Room for as many again, so that a long row of these takes linear time.
            room = max(len(self._kept), 1)
            self._kept[:0] = [segment] * room
            self._first = room - 1

    def before(self, boundary: int) -> Iterator[Segment]:
        """The segments with something before the boundary, newest first."""
        end = bisect_left(self._kept, boundary, lo=self._first, key=attrgetter("start"))
        for number in reversed(range(self._first, end)):
            segment = self._kept[number]
            yield segment if segment.end <= boundary else _cut(segment, boundary)

    def drop_before(self, boundary: int) -> None:
        """Drop the segments that end by then."""
        self._first = self._after(boundary)
        if self._first > len(self):
            del self._kept[: self._first]
            self._first = 0

    def since(self, boundary: int) -> Iterator[Segment]:
        """The segments with something at or after the boundary, oldest first."""
        for number in range(self._after(boundary), len(self._kept)):
            yield self._kept[number].after(boundary)

    def _after(self, boundary: int) -> int:
        """Index of the first segment that ends after the boundary."""
        return bisect_right(self._kept, boundary, lo=self._first, key=attrgetter("end"))


def _cut(segment: Segment, boundary: int) -> Segment:
    rows = tuple(row for row in segment.rows if row.stime < boundary)
    return Segment(segment.start, boundary, rows)
