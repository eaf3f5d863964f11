"""Simulated events of a sensor: when and what the k-th one is follows from k alone.

So whoever knows the start can say what every window must come to, whatever became of the processes
that carried the events. Values are whole numbers, and their sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

__all__ = ["Simulated"]

TABLE: Final = 1 << 16
"""Values and keys repeat after so many events."""
SECOND: Final = 1_000_000


@dataclass(frozen=True)
class Simulated:
    """`rate` events a second from `start` (microseconds since 1970) on; `keys`: how many there are,
    0 for events without; `count`: there are no more events than that."""

    name: str
    start: int
    rate: float
    seed: int = 0
    keys: int = 0
    count: int | None = None
    values: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    _keys: NDArray[Any] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, crc32(self.name.encode())])
        values = rng.integers(-500, 1_000, TABLE).astype(np.float64)
        object.__setattr__(self, "values", values)
        keys = None
        if self.keys:
            names = np.array([f"k{number}" for number in range(self.keys)], object)
            keys = names[rng.integers(0, self.keys, TABLE)]
        object.__setattr__(self, "_keys", keys)

    @property
    def _per_thousand(self) -> int:
        return max(1, round(self.rate * 1_000))

    def time(self, number: int) -> int:
        """Of the event of that number; they count from 0."""
        return self.start + number * SECOND * 1_000 // self._per_thousand

    def before(self, time: int) -> int:
        """How many events there are before a time."""
        found = max(0, -(-(time - self.start) * self._per_thousand // (SECOND * 1_000)))
        return found if self.count is None else min(found, self.count)

    def events(
        self, first: int, stop: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], list[Any] | None]:
        """Times, values and keys of the events from one number to another."""
        numbers = np.arange(first, stop, dtype=np.int64)
        times = self.start + numbers * (SECOND * 1_000) // self._per_thousand
        at = numbers % TABLE
        keys = None if self._keys is None else self._keys[at].tolist()
        return times, self.values[at], keys

    def within(self, start: int, end: int) -> NDArray[np.float64]:
        """The values of the events in `[start, end)`."""
        return self.events(self.before(start), self.before(end))[1]

    def keys_within(self, start: int, end: int) -> list[Any]:
        return self.events(self.before(start), self.before(end))[2] or []
