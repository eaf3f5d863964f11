"""Values by the number of a bucket, oldest first. Used by `Order` for all that waits in it.

Buckets come nearly in order and go from the oldest on, so every operation costs the logarithm of
what is held, or what it returns or drops: a gate stays as fast as it was however long something is
missing.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["ByBucket"]

T = TypeVar("T")


class ByBucket(Generic[T]):
    """A map whose keys are ordered and are dropped from the oldest on."""

    def __init__(self) -> None:
        self._held: dict[int, T] = {}
        self._numbers: list[int] = []
        self._first = 0
        """Index of the oldest number that is held; those before it are dropped in bulk."""

    def __len__(self) -> int:
        return len(self._held)

    def __getitem__(self, number: int) -> T:
        return self._held[number]

    def __setitem__(self, number: int, value: T) -> None:
        if number not in self._held:
            if self._held and number < self._numbers[-1]:
                insort(self._numbers, number, lo=self._first)
            else:
                self._numbers.append(number)
        self._held[number] = value

    def get(self, number: int) -> T | None:
        return self._held.get(number)

    @property
    def last(self) -> int | None:
        """The newest number; None without any."""
        return self._numbers[-1] if self._held else None

    def numbers(self, first: float = -math.inf, stop: float = math.inf) -> Iterator[int]:
        """The numbers from `first` to `stop`, one by one. Nothing may be changed meanwhile."""
        for index in range(self._index(first), len(self._numbers)):
            number = self._numbers[index]
            if number >= stop:
                return
            yield number

    def after(self, number: int) -> T | None:
        """The value of the first number above this one; None if there is none."""
        index = bisect_right(self._numbers, number, lo=self._first)
        return self._held[self._numbers[index]] if index < len(self._numbers) else None

    def pop(self, first: float = -math.inf, stop: float = math.inf) -> list[tuple[int, T]]:
        """Take out what is held from `first` to `stop`."""
        start, end = self._index(first), self._index(stop)
        taken = [(number, self._held.pop(number)) for number in self._numbers[start:end]]
        if start > self._first:
            del self._numbers[start:end]
            return taken
        self._first = end
        if self._first > len(self._held):
            del self._numbers[: self._first]
            self._first = 0
        return taken

    def drop_before(self, number: int) -> list[T]:
        """Take out what is held before this number."""
        if not self._held or self._numbers[self._first] >= number:
            return []
        return [value for _, value in self.pop(self._numbers[self._first], number)]

    def _index(self, number: float) -> int:
        return bisect_left(self._numbers, number, lo=self._first)
