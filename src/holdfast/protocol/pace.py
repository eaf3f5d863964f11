"""How long a replica that runs ahead of the others is to rest, so that what waits stays little.

The rule of the founding document: (counter of the fast one - counter of the slow one) times the
mean gap between two buckets of the slow one, once more waits than a threshold. The slow one here is
the slowest of those whose votes are needed: one that is gone for good makes nobody wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

__all__ = ["Pace"]

REMEMBERED = 32
"""The mean is over so many buckets."""


class Pace:
    """When each replica's buckets have come."""

    def __init__(self, enough: int, threshold: int) -> None:
        """`enough`: so many replicas are needed. `threshold`: so much may wait without a rest."""
        self.enough = enough
        self.threshold = threshold
        self._times: dict[str, deque[int]] = {}

    def note(self, replica: str, now: int) -> None:
        """A bucket of it has come."""
        self._times.setdefault(replica, deque(maxlen=REMEMBERED)).append(now)

    def gap(self, replica: str) -> float:
        """The mean time between two of its buckets; 0 before there are two."""
        times = self._times.get(replica, deque())
        return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0

    def rest(self, replica: str, counters: Mapping[str, int], held: int) -> int:
        """How long this replica is not to be read, if it is the fastest; 0 if it may go on.
        `counters`: the next bucket of each. `held`: what waits."""
        if held <= self.threshold or counters[replica] < max(counters.values()):
            return 0
        slow = self._slow(counters)
        return int((counters[replica] - counters[slow]) * self.gap(slow))

    def is_ahead(self, replica: str, counters: Mapping[str, int]) -> bool:
        """Whether the others can do without it for now; else its rest is over."""
        return counters[replica] > counters[self._slow(counters)]

    def _slow(self, counters: Mapping[str, int]) -> str:
        """The slowest of those that are needed."""
        by_speed = sorted(counters, key=lambda name: counters[name], reverse=True)
        return by_speed[min(self.enough, len(by_speed)) - 1]
