"""Contents of streams: rows, their ids and kinds, and the arithmetic of buckets.

Event time (`stime`, microseconds) orders a stream. It is cut into buckets `[k·size, (k+1)·size)`;
the boundary of a stream is the time below which nothing more will come. A stream travels in
segments: all rows between two boundaries, whole or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b, sha256
from itertools import groupby
from typing import Any, Final, NamedTuple

STIME: Final = "stime"
"""What the event time of a row is called where rows are tables."""
ROW: Final = 500
"""Bytes that a row takes in memory beside those of its value, about."""


class Kind(Enum):
    """What a tuple of a stream says."""

    INSERT = "insert"
    """A row that is final, in value and in place."""
    TENTATIVE = "tentative"
    """A row made of a part of the input; it will be withdrawn."""
    BOUNDARY = "boundary"
    """No later row is older than this."""
    UNDO = "undo"
    """All tentative rows shown so far are withdrawn."""
    REC_DONE = "rec_done"
    """All that was tentative has been corrected."""


class Row(NamedTuple):
    """One row. Keys are plain values of which equal ones look equal (`ascii`)."""

    stime: int
    key: Any
    value: Any


class Id(NamedTuple):
    """What a row is called on every replica, however many partitions made it."""

    bucket: int
    shard: int
    rank: int


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of a stream with `start <= stime < end`, in the stream's order."""

    start: int
    end: int
    rows: tuple[Row, ...]

    @property
    def weight(self) -> int:
        """Bytes that its rows take."""
        return weight_of(self.rows)

    def after(self, boundary: int) -> Segment:
        """What of it lies at or after the boundary."""
        if boundary <= self.start:
            return self
        return Segment(boundary, self.end, tuple(r for r in self.rows if r.stime >= boundary))

    def by_bucket(self, size: int) -> list[Segment]:
        """The same in pieces: each bucket that has rows, and all that have none between two."""
        pieces: list[Segment] = []
        start = self.start
        for bucket, rows in groupby(self.rows, lambda row: bucket_of(row.stime, size)):
            first, end = max(bucket * size, self.start), min((bucket + 1) * size, self.end)
            if start < first:
                pieces.append(Segment(start, first, ()))
            pieces.append(Segment(first, end, tuple(rows)))
            start = end
        if start < self.end:
            pieces.append(Segment(start, self.end, ()))
        return pieces


def weight_of(rows: Iterable[Row]) -> int:
    """Bytes that rows take in memory, as far as their values tell their size."""
    return sum(ROW + getattr(row.value, "size", 0) for row in rows)


def bucket_of(stime: int, size: int) -> int:
    """The bucket a time falls into."""
    return stime // size


def shard_of(key: Any, shards: int) -> int:
    """The shard of a key: the same in every process and on every machine."""
    return int.from_bytes(blake2b(ascii(key).encode(), digest_size=8).digest(), "big") % shards


def identify(rows: Sequence[Row], size: int, shards: int) -> list[Id]:
    """The ids of rows in the stream's order: ranked within their bucket and shard.

    Give whole buckets, for ranks count from the bucket's first row.
    """
    counted: Counter[tuple[int, int]] = Counter()
    ids = []
    for row in rows:
        place = bucket_of(row.stime, size), shard_of(row.key, shards)
        ids.append(Id(*place, counted[place]))
        counted[place] += 1
    return ids


def digest(rows: Iterable[Row]) -> bytes:
    """SHA-256 over the canonical form of the rows."""
    return sha256("\n".join(ascii(tuple(row)) for row in rows).encode()).digest()
