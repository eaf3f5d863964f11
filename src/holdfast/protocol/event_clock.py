"""The time of a stream whose rows have times of their own: how far no row may come any more.

Its newest row moves it, or, where rows stay away for long and the source is known to be well, the
clock of the machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["EventClock"]


@dataclass(slots=True)
class EventClock:
    """In buckets of `size`, all in microseconds."""

    size: int
    lateness: int = 0
    """How much older than the newest row a row may be."""
    idle: float = math.inf
    """After so long without a row it is as if one had come that is so old."""
    closed: int = 0
    """Rows before this are late."""
    newest: int = 0
    """The time of the newest row that was in time."""
    heard: int = 0
    """When the last row came, or silence began to mean something: by a clock that never steps."""

    def see(self, time: int) -> None:
        """There is a row of this time."""
        self.newest = max(self.newest, time)

    def close(self) -> int:
        """Up to where no row may come any more."""
        self.closed = max(self.closed, (self.newest - self.lateness) // self.size * self.size)
        return self.closed

    def is_idle(self, passed: int) -> bool:
        """Whether nothing has come for so long; `passed` is the clock that never steps."""
        return passed - self.heard >= self.idle

    def wake(self, now: int, passed: int) -> bool:
        """Go on without rows, if none have come for long; whether that leads anywhere."""
        if not self.is_idle(passed):
            return False
        before = self.closed
        self.see(now - int(self.idle))
        return self.close() > before

    def next_wake(self, now: int, passed: int) -> float:
        """When silence next leads anywhere."""
        moves = self.closed + self.size + self.lateness + self.idle
        rest = self.heard + self.idle - passed
        return max(moves, now + rest) if rest > 0 else moves
