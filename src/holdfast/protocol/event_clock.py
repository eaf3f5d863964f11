"""The time of a stream whose rows have times of their own: how far no row may come any more.

Its newest row moves it, or, where rows stay away for long and the source is known to be well, the
time that passes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["EventClock"]


@dataclass(slots=True)
class EventClock:
    """In buckets of `size`, all in microseconds.

    `now` is the machine's clock, that may be wrong and may be set; `passed` one that never steps.
    """

    size: int
    lateness: int = 0
    """How much older than the newest row a row may be."""
    idle: float = math.inf
    """After so long without a row it is as if one had come that is so old."""
    closed: int = 0
    """Rows before this are late."""
    newest: int = 0
    """The time of the newest row."""
    heard: int = 0
    """When the last row came, or silence began to mean something."""
    looks: int = 2_000_000
    """The longest time between two looks at it while the process runs."""
    _came: int | None = None
    """When the newest row came; None if that was before the process was started."""
    _looked: int | None = None

    def see(self, time: int, passed: int | None = None) -> None:
        """There is a row of this time, be it late, that has just come if it is said when."""
        if time >= self.newest:
            self.newest, self._came = time, passed

    def hear(self, passed: int) -> None:
        """Silence begins anew."""
        self.heard = self._looked = passed

    def close(self) -> int:
        """Up to where no row may come any more."""
        self._move(self.newest)
        return self.closed

    def _move(self, newest: int) -> None:
        self.closed = max(self.closed, (newest - self.lateness) // self.size * self.size)

    def is_idle(self, passed: int) -> bool:
        """Whether nothing has come for so long."""
        return passed - self.heard >= self.idle

    def wake(self, now: int, passed: int) -> bool:
        """Go on without rows, if none have come for long; whether that leads anywhere."""
        self._look(passed)
        if not self.is_idle(passed):
            return False
        before = self.closed
        self._move(self._time(now, passed) - int(self.idle))
        return self.closed > before

    def next_wake(self, now: int, passed: int) -> float:
        """When silence next leads anywhere, by the machine's clock."""
        self._look(passed)
        moves = self.closed + self.size + self.lateness + self.idle - self._time(now, passed)
        return now + max(moves, self.heard + self.idle - passed)

    def _time(self, now: int, passed: int) -> int:
        """What a row would say that comes now: as much more than the newest as has passed since,
        for a machine's clock that is ahead of those who make the rows would make them all late."""
        return now if self._came is None else min(now, self.newest + passed - self._came)

    def _look(self, passed: int) -> None:
        """If the process was not running, rows may be waiting at its door: that was no silence."""
        if self._looked is not None and passed - self._looked > max(self.looks, self.idle / 2):
            self.heard = passed
        self._looked = passed
