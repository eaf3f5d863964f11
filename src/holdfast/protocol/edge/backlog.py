"""The events of a sensor in one partition that somebody may still ask for: a ring of arrays.

Offsets count from 1. Everything costs by frame, nothing by event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.protocol.edge.messages import Gap

__all__ = ["Backlog", "Piece"]

MOST_MARKS: Final = 4_096
GRAIN: Final = 100_000
"""Microseconds: of events that leave together those of each such span are known apart, so that what
is needed of them can be told."""


class Piece(NamedTuple):
    """Events from `first` on."""

    first: int
    times: NDArray[np.int64]
    values: NDArray[np.float64]
    keys: list[Any] | None


class Backlog:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.first = 1
        """The smallest offset that is still here, or that of the next event."""
        self.next = 1
        self._times = np.empty(capacity, np.int64)
        self._values = np.empty(capacity, np.float64)
        self._keys: NDArray[Any] | None = None
        self._gone: deque[tuple[int, int]] = deque(maxlen=MOST_MARKS)
        self._gone_until = -1

    def __len__(self) -> int:
        return self.next - self.first

    @property
    def room(self) -> int:
        return self.capacity - len(self)

    def append(
        self,
        times: NDArray[np.int64],
        values: NDArray[np.float64],
        keys: NDArray[Any] | None,
    ) -> None:
        """At most `capacity` events; the oldest make room."""
        count = len(times)
        if count > self.room:
            self.drop(self.first - 1 + count - self.room)
        place = (self.next - 1) % self.capacity
        head = min(count, self.capacity - place)
        self._times[place : place + head] = times[:head]
        self._times[: count - head] = times[head:]
        self._values[place : place + head] = values[:head]
        self._values[: count - head] = values[head:]
        if keys is not None:
            if self._keys is None:
                self._keys = np.empty(self.capacity, object)
            self._keys[place : place + head] = keys[:head]
            self._keys[: count - head] = keys[head:]
        self.next += count

    def drop(self, upto: int) -> None:
        """Nobody needs the offsets up to this one any more, or there is no room for them."""
        upto = min(upto, self.next - 1)
        if upto < self.first:
            return
        begin = self.first
        for part in self._spans(self._times, self.first, upto):
            self._mark(begin, part)
            begin += len(part)
        if self._keys is not None:
            for part in self._spans(self._keys, self.first, upto):
                part[:] = None
        self.first = upto + 1

    def _mark(self, begin: int, times: NDArray[np.int64]) -> None:
        """Events from the offset `begin` on are gone."""
        latest = np.maximum.accumulate(times)
        low, high = max(int(latest[0]), self._gone_until), max(int(latest[-1]), self._gone_until)
        edges = range(low - low % GRAIN + GRAIN, high + 1, GRAIN)[-MOST_MARKS:]
        for end in np.unique(np.searchsorted(latest, edges)).tolist() if edges else ():
            if end:
                self._gone.append((begin + end - 1, max(int(latest[end - 1]), self._gone_until)))
        self._gone_until = high
        self._gone.append((begin + len(times) - 1, high))

    def gone(self, after: int, since: int) -> list[Gap]:
        """What of the events after an offset is not here any more, as they left; events before
        `since` are not needed. Together they are the smallest offset that is here, less the one
        asked for, less one."""
        gaps: list[Gap] = []
        for upto, until in self._gone:
            if upto > after:
                gaps.append(Gap(upto, upto - after if until >= since else 0, until))
                after = upto
        return gaps

    def read(self, first: int, most: int) -> Piece:
        """Up to so many events, as copies."""
        last = min(self.next - 1, first + most - 1)
        keys = None
        if self._keys is not None:
            keys = [key for part in self._spans(self._keys, first, last) for key in part]
        return Piece(
            first,
            np.concatenate(self._spans(self._times, first, last)),
            np.concatenate(self._spans(self._values, first, last)),
            keys,
        )

    def time(self, offset: int) -> int:
        return int(self._times[(offset - 1) % self.capacity])

    def _spans(self, array: NDArray[Any], first: int, last: int) -> Sequence[NDArray[Any]]:
        """Views on the one or two places where these offsets are."""
        begin = (first - 1) % self.capacity
        count = last - first + 1
        head = min(count, self.capacity - begin)
        spans = [array[begin : begin + head]]
        if head < count:
            spans.append(array[: count - head])
        return spans
