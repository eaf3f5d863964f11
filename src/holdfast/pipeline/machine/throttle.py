"""Rests of a replica that runs ahead of the others, so that what waits stays bounded.

Two rules of the founding document, once more waits than a threshold: (counter of the fast one -
counter of the slow one) times the mean gap between two buckets of the slow one, so that the slow
one comes up; or that gap for each bucket that came, so that both are equally fast. The slow one
here is the slowest of those whose votes are needed: one that is gone for good makes nobody wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import StrEnum

REMEMBERED = 32
"""The mean is over so many buckets, or a few more if they came together."""


class Rest(StrEnum):
    """How long the fastest rests: until the slow one has come up, or as long as that one takes."""

    DISTANCE = "distance"
    RATE = "rate"


class Pace:
    """When each replica's buckets have come."""

    def __init__(self, enough: int, threshold: int, rest: Rest = Rest.DISTANCE) -> None:
        """`enough`: so many replicas are needed. `threshold`: so much may wait without a rest."""
        self.enough = enough
        self.threshold = threshold
        self.policy = rest
        self._arrivals: dict[str, deque[tuple[int, int]]] = {}
        """When buckets came, and how many at once."""

    def note(self, replica: str, count: int, now: int) -> None:
        """So many buckets of it have come at once."""
        if count == 0:
            return
        arrivals = self._arrivals.setdefault(replica, deque())
        arrivals.append((now, count))
        while len(arrivals) > 2 and sum(count for _, count in arrivals) - arrivals[0][1] >= (
            REMEMBERED + arrivals[1][1]
        ):
            arrivals.popleft()

    def gap(self, replica: str) -> float:
        """The mean time between two of its buckets; 0 before some have come after others."""
        arrivals = self._arrivals.get(replica, deque())
        if len(arrivals) < 2:
            return 0.0
        # Those that came first have taken their time before.
        count = sum(count for _, count in arrivals) - arrivals[0][1]
        return (arrivals[-1][0] - arrivals[0][0]) / count

    def rest(self, replica: str, counters: Mapping[str, int], held: int) -> int:
        """How long this replica is not to be read, if it is the fastest; 0 if it may go on.
        `counters`: the next bucket of each. `held`: what waits."""
        if held <= self.threshold or counters[replica] < max(counters.values()):
            return 0
        slow = self._slow(counters)
        ahead = counters[replica] - counters[slow]
        if self.policy == Rest.RATE:
            # One that has only said what it keeps no longer has given nothing.
            _, came = self._arrivals.get(replica, [(0, 0)])[-1]
            ahead = min(ahead, came)
        return int(ahead * self.gap(slow))

    def is_ahead(self, replica: str, counters: Mapping[str, int]) -> bool:
        """Whether the others can do without it for now; else its rest is over."""
        return counters[replica] > counters[self._slow(counters)]

    def _slow(self, counters: Mapping[str, int]) -> str:
        """The slowest of those that are needed."""
        by_speed = sorted(counters, key=lambda name: counters[name], reverse=True)
        return by_speed[min(self.enough, len(by_speed)) - 1]
