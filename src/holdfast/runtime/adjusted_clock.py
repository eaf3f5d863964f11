"""Clock that follows a wall clock which is set, and never goes back (pure: readings are given)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SLOWER: Final = 10
"""While it waits for the machine's clock, a tenth of the time that passes is left out."""


def steady(clock: Clock) -> Callable[[], int]:
    """A clock that nobody sets, from the time that another one shows now: for a party that asks
    another one for the time, again and again."""
    start, since = clock(), clock.passed()
    return lambda: start + clock.passed() - since


class Clock:
    """Microseconds by a `wall` clock that people and NTP set, and one that is `steady`: that never
    steps, and may or may not stand still with the machine.

    It is never behind the wall clock: a step forward, or the end of a suspension, is taken at once.
    When the wall clock is set back, it goes on from what it has given at nine tenths of the usual
    pace, so that all that waits for it still happens, until the wall clock has caught up: after ten
    times the step."""

    def __init__(self, wall: Callable[[], int], steady: Callable[[], int], start: int = 0) -> None:
        """`start`: it gives no time before this one."""
        self._wall = wall
        self._steady = steady
        self._since = self._passed = steady()
        self._from = max(wall(), start)
        """What was given when `_since` was, the last time the wall clock was not behind."""

    def __call__(self) -> int:
        return self._look()[0]

    def ahead(self) -> int:
        """How far it is ahead of the wall clock."""
        given, wall = self._look()
        return given - wall

    def behind(self, time: int) -> int:
        """How far a time is behind the wall clock; below 0 if it is ahead of it."""
        return self._look()[1] - time

    def passed(self) -> int:
        """The steady clock."""
        self._passed = max(self._passed, self._steady())
        return self._passed

    def not_before(self, time: int) -> None:
        """Go on from there, if it has not come so far."""
        if self._look()[0] < time:
            self._from, self._since = time, self._passed

    def _look(self) -> tuple[int, int]:
        wall, passed = self._wall(), self.passed()
        elapsed = passed - self._since
        given = self._from + elapsed - elapsed // SLOWER
        if wall >= given:
            given = self._from = wall
            self._since = passed
        return given, wall
