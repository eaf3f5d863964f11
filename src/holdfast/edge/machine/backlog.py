"""Events of a sensor in one partition: the choice of partition, and a ring of arrays.

Offsets count from 1. Everything costs by frame, nothing by event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from holdfast.edge.machine.messages import Gap
from holdfast.errors import InvalidArgumentError

Choice = slice | NDArray[np.intp]
"""Which of some events; slices have a start and a step."""

Partitioner = Callable[[int, NDArray[Any] | None, int], Sequence[Choice]]
"""From the number of events taken so far, the keys of those that come, if any, and their number:
which of them each partition gets, in order."""


def by_round_robin(places: int) -> Partitioner:
    """One after the other."""

    def choose(taken: int, keys: NDArray[Any] | None, count: int) -> Sequence[Choice]:
        return [slice((place - taken) % places, count, places) for place in range(places)]

    return choose


def by_hash(places: int) -> Partitioner:
    """All events of a key to the same one, the same for all sensors and at all times; those without
    a key to one of them."""
    known: dict[Any, int] = {}

    def place(key: Any) -> int:
        found = known.get(key)
        if found is None:
            if len(known) >= 100_000:
                known.clear()
            found = known[key] = crc32(repr(key).encode()) % places
        return found

    def choose(taken: int, keys: NDArray[Any] | None, count: int) -> Sequence[Choice]:
        if keys is None:
            chosen = place(None)
            return [slice(0, count if each == chosen else 0, 1) for each in range(places)]
        return _divided(np.fromiter((place(key) for key in keys), np.intp, count), places)

    return choose


def by_random(places: int, rng: np.random.Generator) -> Partitioner:
    def choose(taken: int, keys: NDArray[Any] | None, count: int) -> Sequence[Choice]:
        return _divided(rng.integers(0, places, count), places)

    return choose


def by_primary(places: int, place: int) -> Partitioner:
    """All to one."""

    def choose(taken: int, keys: NDArray[Any] | None, count: int) -> Sequence[Choice]:
        return [slice(0, count if each == place else 0, 1) for each in range(places)]

    return choose


def _divided(chosen: NDArray[np.integer[Any]], places: int) -> Sequence[Choice]:
    return [np.flatnonzero(chosen == place) for place in range(places)]


def partitioner(
    name: str, sensor: str, partitions: Sequence[int], rng: np.random.Generator | None
) -> Partitioner:
    """By the name it has in a configuration."""
    places = len(partitions)
    match name:
        case "round-robin":
            return by_round_robin(places)
        case "hash":
            return by_hash(places)
        case "random":
            if rng is None:
                raise InvalidArgumentError("events are divided at random: give the sensor an rng")
            return by_random(places, rng)
        case "primary":
            return by_primary(places, crc32(sensor.encode()) % places)
        case _:
            raise InvalidArgumentError(
                f"partitioner {name!r}: expected round-robin, hash, random or primary"
            )


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
