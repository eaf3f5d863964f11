"""What a proxy has taken in of its device and not yet logged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from holdfast.pipeline.machine.tuples import Row
from simulator.standby.messages import Entry, Reading


class Readings:
    """Readings by number and by time, without holes."""

    def __init__(self) -> None:
        self._held: deque[Reading] = deque()

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Reading]:
        return iter(self._held)

    @property
    def newest(self) -> Reading | None:
        return self._held[-1] if self._held else None

    def append(self, reading: Reading) -> None:
        self._held.append(reading)

    def rows(self, start: int, end: int) -> list[Row]:
        """The rows of all that were taken in before `end`, none of them before `start`."""
        rows = []
        for reading in self._held:
            stime = max(reading.stime, start)
            if stime >= end:
                break
            rows.append(Row(stime, reading.key, reading.value))
        return rows

    def drop(self, last: int) -> None:
        """All up to this number are in the log."""
        while self._held and self._held[0].number <= last:
            self._held.popleft()

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Readings of entries that are replaced, which nobody has seen, are to be handed on."""
        for entry in reversed(entries):
            rows = entry.segment.rows
            first = entry.last - len(rows) + 1
            self._held.extendleft(
                Reading(first + i, row.key, row.value, row.stime)
                for i, row in reversed(list(enumerate(rows)))
            )
