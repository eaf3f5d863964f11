"""Stable rows of one stream that wait in a gate, in memory and on a shelf.

The base goes on from the oldest, and a fork from the newest, so those are in memory. What is
between them lies on the shelf in pages, until the base comes there; in memory is only which buckets
a page has.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Generic, Protocol, TypeVar

from holdfast.pipeline.machine.tuples import Row, bucket_of, weight_of

# Values by the number of a bucket, oldest first. Used by `Order` for all that waits in it.
#
# Buckets come nearly in order and go from the oldest on, so every operation costs the logarithm of
# what is held, or what it returns or drops: a gate stays as fast as it was however long something
# is missing.

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


BUCKETS: Final = 1024
"""A page has so many buckets at most."""


class Shelf(Protocol):
    """Storage of pages; it need not outlive the process."""

    def put(self, rows: Sequence[Row]) -> int:
        """Store a page; the number under which it lies."""

    def get(self, page: int) -> Sequence[Row]: ...

    def drop(self, page: int) -> None: ...


@dataclass(frozen=True, slots=True)
class _Page:
    number: int
    first: int
    """Its first bucket."""
    buckets: int
    weight: int


class _Part:
    """Rows by bucket, in memory."""

    def __init__(self) -> None:
        self.rows: ByBucket[list[Row]] = ByBucket()
        self.weight = 0

    def add(self, number: int, rows: Sequence[Row]) -> None:
        known = self.rows.get(number)
        if known is None:
            self.rows[number] = list(rows)
        else:
            known += rows
        self.weight += weight_of(rows)

    def drop_before(self, number: int) -> list[list[Row]]:
        dropped = self.rows.drop_before(number)
        self.weight -= sum(map(weight_of, dropped))
        return dropped


class Waiting:
    """Rows by bucket, of which about `room` bytes are in memory if there is a shelf."""

    def __init__(self, size: int, room: float = math.inf, shelf: Shelf | None = None) -> None:
        self._size = size
        self._room = room
        self._shelf = shelf
        self._head = _Part()
        """The oldest."""
        self._pages: ByBucket[_Page] = ByBucket()
        """By their last bucket."""
        self._tail = _Part()
        """The newest, while there are pages."""
        self._loaded: tuple[int, _Part] | None = None
        """The page that was read last."""
        self._shelved = 0
        self.on_shelf = 0
        """Bytes on the shelf."""

    def __len__(self) -> int:
        return len(self._head.rows) + self._shelved + len(self._tail.rows)

    @property
    def in_memory(self) -> int:
        """Bytes in memory."""
        loaded = 0 if self._loaded is None else self._loaded[1].weight
        return self._head.weight + self._tail.weight + loaded

    def add(self, number: int, rows: Sequence[Row]) -> None:
        """Rows of a bucket that is not before the newest."""
        has_tail = len(self._pages) or len(self._tail.rows)
        (self._tail if has_tail else self._head).add(number, rows)
        if self._shelf is not None:
            self._make_room(self._shelf)

    def __getitem__(self, number: int) -> list[Row]:
        for part in (self._head, self._tail):
            rows = part.rows.get(number)
            if rows is not None:
                return rows
        page = self._pages.after(number - 1)
        if page is None:
            raise KeyError(number)
        return self._load(page).rows[number]

    def numbers(self, first: int, stop: int) -> Iterator[int]:
        """The buckets from `first` to `stop` that have rows, one by one."""
        yield from self._head.rows.numbers(first, stop)
        for last in self._pages.numbers(first):
            page = self._pages[last]
            if page.first >= stop:
                break
            yield from self._load(page).rows.numbers(first, stop)
        yield from self._tail.rows.numbers(first, stop)

    def drop_before(self, number: int) -> None:
        self._head.drop_before(number)
        for page in self._pages.drop_before(number):
            self._forget(page)
        self._tail.drop_before(number)
        if self._shelf is not None:
            self._fetch(number)

    def _make_room(self, shelf: Shelf) -> None:
        half = self._room / 2
        if not (len(self._pages) or len(self._tail.rows)):
            if self._head.weight <= self._room:
                return
            self._split(half)
        while self._tail.weight > half and len(self._tail.rows) > 1:
            self._put(shelf)

    def _split(self, half: float) -> None:
        """Leave so much in the head, at least one bucket; the tail gets the others."""
        weight = 0
        for number in self._head.rows.numbers():
            weight += weight_of(self._head.rows[number])
            if weight > half:
                break
        for moved, rows in self._head.rows.pop(number + 1):
            self._head.weight -= weight_of(rows)
            self._tail.add(moved, rows)

    def _put(self, shelf: Shelf) -> None:
        """Put the oldest of the tail on the shelf, but never the newest bucket, for it may grow."""
        tail, rows, numbers, weight = self._tail.rows, list[Row](), list[int](), 0
        for number in tail.numbers(stop=tail.last or 0):
            rows += tail[number]
            numbers.append(number)
            weight += weight_of(tail[number])
            if weight > self._room / 8 or len(numbers) >= BUCKETS:
                break
        page = _Page(shelf.put(rows), numbers[0], len(numbers), weight)
        self._tail.drop_before(numbers[-1] + 1)
        self._pages[numbers[-1]] = page
        self._shelved += page.buckets
        self.on_shelf += weight

    def _fetch(self, number: int) -> None:
        """Take pages from the shelf while there is room at the head; nothing older is needed."""
        while len(self._pages) and self._head.weight < self._room / 4:
            last = next(self._pages.numbers())
            [page] = self._pages.drop_before(last + 1)
            for each, rows in self._load(page).rows.pop(number):
                self._head.add(each, rows)
            self._forget(page)
        if not len(self._pages) and len(self._tail.rows):
            moved, self._tail = self._tail, _Part()
            for each, rows in moved.rows.pop():
                self._head.add(each, rows)

    def _load(self, page: _Page) -> _Part:
        if self._loaded is None or self._loaded[0] != page.number:
            assert self._shelf is not None
            part = _Part()
            by_bucket = groupby(
                self._shelf.get(page.number), lambda row: bucket_of(row.stime, self._size)
            )
            for number, rows in by_bucket:
                part.add(number, list(rows))
            self._loaded = page.number, part
        return self._loaded[1]

    def _forget(self, page: _Page) -> None:
        assert self._shelf is not None
        self._shelf.drop(page.number)
        self._shelved -= page.buckets
        self.on_shelf -= page.weight
        if self._loaded is not None and self._loaded[0] == page.number:
            self._loaded = None
