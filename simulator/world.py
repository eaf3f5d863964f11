"""Virtual time: what is to happen, and when. Nothing happens by itself, and nothing twice alike."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

TOO_MUCH: Final = 400_000
"""No run has a fifth of so many events in a minute, unless somebody keeps answering himself."""
MINUTE: Final = 60_000_000


class EndlessRunError(Exception):
    """The parties do not come to an end."""


class World:
    """A queue of actions by time; those of the same time happen in the order they were planned."""

    def __init__(self) -> None:
        self.now = 0
        self.happened = 0
        self._minute, self._before = 0, 0
        """The minute of now, and what had happened before it."""
        self._plans: list[tuple[int, int, Callable[[], None]]] = []
        self._planned = 0

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Plan an action; what should have happened before now happens now."""
        self._planned += 1
        heappush(self._plans, (max(self.now, int(time)), self._planned, action))

    def run(self, until: int) -> None:
        """Let happen what is planned up to then."""
        while self._plans and self._plans[0][0] <= until:
            self.now, _, action = heappop(self._plans)
            if self.now // MINUTE > self._minute:
                self._minute, self._before = self.now // MINUTE, self.happened
            self.happened += 1
            if self.happened - self._before > TOO_MUCH:
                raise EndlessRunError(f"{self.happened} events by {self.now / 1e6:.3f} s")
            action()
        self.now = until
