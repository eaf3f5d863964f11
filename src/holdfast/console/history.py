"""History of all parties during the last hour, in bounded memory.

Facts change rarely and are kept when they do; so are votes, which change with each bucket. Numbers
are kept once a second in one table of fixed size. Nothing here looks at a clock: times, in seconds
since 1970, are given.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Final

import msgspec
import numpy as np

from holdfast.console.pollers import FIGURES, Condition, severity_of

# What was said of one thing during the last hour: each word from when it was new, compressed.
#
# For what changes as a whole and is looked at rarely: tables of panels, votes. Nothing here looks
# at a clock: times, in seconds since 1970, are given.

HOUR: Final = 3600
MOST_BYTES: Final = 8 << 20


class Past:
    """Written by one thread, read by others. With more than `most` bytes the oldest goes first."""

    def __init__(self, most: int = MOST_BYTES, seconds: float = HOUR) -> None:
        self._most = most
        self._seconds = seconds
        self._times: list[float] = []
        self._words: list[bytes] = []
        self._last = b""
        self._bytes = 0
        self._lock = Lock()

    def add(self, at: float, said: bytes) -> None:
        """From now on this is said; the same again is no news."""
        if said == self._last and self._times:
            return
        self._last = said
        pressed = zlib.compress(said, 1)
        with self._lock:
            self._times.append(at)
            self._words.append(pressed)
            self._bytes += len(pressed)
            # The last one before the hour says how it was when the hour began.
            old = max(0, bisect_left(self._times, at - self._seconds) - 1)
            over = self._bytes - sum(map(len, self._words[:old])) - self._most
            while over > 0 and old < len(self._words) - 1:
                over -= len(self._words[old])
                old += 1
            self._bytes -= sum(map(len, self._words[:old]))
            del self._times[:old], self._words[:old]

    def at(self, at: float) -> bytes | None:
        """What was said at a time; None if nothing was, or is known of it."""
        with self._lock:
            place = bisect_right(self._times, at)
            pressed = self._words[place - 1] if place else None
        return None if pressed is None else zlib.decompress(pressed)


CHANGES: Final = 2000
"""Of one party in the hour; one that changes more often loses its oldest."""
STALE: Final = 5
"""Seconds for which the last numbers stand in for those of a second that has none."""


class History:
    """Written by the collector, read by requests."""

    def __init__(self, parties: Sequence[str], seconds: int = HOUR) -> None:
        self._parties = list(parties)
        self._seconds = seconds
        self._changes: dict[str, deque[tuple[float, Mapping[str, Any]]]] = {
            name: deque(maxlen=CHANGES) for name in parties
        }
        self._stamps = np.zeros(seconds, dtype=np.int64)
        self._worst = np.zeros(seconds, dtype=np.uint8)
        self._figures = np.full((seconds, len(self._parties), len(FIGURES)), np.nan)
        self._ballots: dict[str, Past] = {}
        self._first: float | None = None
        self._lock = Lock()

    def change(self, at: float, party: str, facts: Mapping[str, Any]) -> None:
        """A party is in another condition from now on."""
        with self._lock:
            self._first = at if self._first is None else self._first
            changes = self._changes[party]
            changes.append((at, facts))
            # The last one before the hour says how it was when the hour began.
            while len(changes) > 1 and changes[1][0] < at - self._seconds:
                changes.popleft()

    def tick(self, at: float, conditions: Mapping[str, Condition]) -> None:
        """Keep the numbers of this second."""
        second = int(at)
        slot = second % self._seconds
        with self._lock:
            self._stamps[slot] = second
            self._worst[slot] = max(map(severity_of, conditions.values()), default=0)
            for row, name in enumerate(self._parties):
                condition = conditions.get(name)
                self._figures[slot, row] = math.nan if condition is None else condition.figures
                if condition is not None and (condition.ballots or name in self._ballots):
                    past = self._ballots.setdefault(name, Past())
                    past.add(at, msgspec.json.encode(condition.ballots))

    def begins(self, now: float) -> float:
        """From when on anything is known."""
        first = now if self._first is None else self._first
        return max(first, now - self._seconds)

    def at(self, at: float) -> dict[str, Condition]:
        """How all parties of which anything is known were at a time."""
        with self._lock:
            figures = self._figures_at(int(at))
            found = {}
            for row, name in enumerate(self._parties):
                changes = self._changes[name]
                place = bisect_right(changes, at, key=lambda change: change[0])
                if place:
                    numbers = (math.nan,) * len(FIGURES) if figures is None else figures[row]
                    found[name] = Condition(
                        changes[place - 1][1],
                        tuple(map(float, numbers)),
                        ballots=self._ballots_at(name, at),
                    )
            return found

    def _ballots_at(self, name: str, at: float) -> Mapping[str, Any]:
        past = self._ballots.get(name)
        said = None if past is None else past.at(at)
        return {} if said is None else msgspec.json.decode(said)

    def _figures_at(self, second: int) -> Any:
        for near in range(second, second - STALE, -1):
            slot = near % self._seconds
            if self._stamps[slot] == near:
                return self._figures[slot]
        return None

    def series(self, figure: str, end: float, seconds: int) -> dict[str, list[float]]:
        """A number of each party, second by second until then; 0 where it is not known."""
        column = FIGURES.index(figure)
        with self._lock:
            wanted = np.arange(int(end) - seconds + 1, int(end) + 1)
            slots = wanted % self._seconds
            found = self._figures[slots, :, column]
            found[self._stamps[slots] != wanted] = 0
        found = np.nan_to_num(found).round(3)
        return {name: found[:, row].tolist() for row, name in enumerate(self._parties)}

    def overview(self, start: float, end: float, cells: int) -> list[int]:
        """The hour at a glance: for each of so many equal pieces the worst that any party was."""
        with self._lock:
            inside = (self._stamps >= int(start)) & (self._stamps <= int(end))
            stamps, worst = self._stamps[inside], self._worst[inside]
        span = max(end - start, 1e-9)
        places = np.clip(((stamps - start) / span * cells).astype(np.int64), 0, cells - 1)
        found = np.zeros(cells, dtype=np.uint8)
        np.maximum.at(found, places, worst)
        # A piece shorter than a second may have none of its own.
        for place in range(1, cells):
            if found[place] == 0 and span / cells < STALE:
                found[place] = found[place - 1]
        return [int(each) for each in found]
