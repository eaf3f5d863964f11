"""Rows on their way into a source: what they are stamped with, and what of them is safe already.

Without a time of their own, rows get the time at which they arrive. With one, they are held back
until no earlier row may come, and ordered by it; rows that come later than that are counted and
left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tuples import STIME

__all__ = ["EventTimes", "stamped"]

TIME_TYPE = pa.timestamp("us", "UTC")


def stamped(table: pa.Table, stime: int) -> pa.Table:
    """The rows, all with this time."""
    times = pa.array(np.full(len(table), stime, np.int64)).cast(TIME_TYPE)
    return table.add_column(0, pa.field(STIME, TIME_TYPE, nullable=False), times)


@dataclass(slots=True)
class EventTimes:
    """Orders rows by a column of theirs, bucket by bucket."""

    column: str
    size: int
    """Of a bucket."""
    lateness: int
    """How much older than the newest row a row may be."""
    closed: int = 0
    """Rows before this are late."""
    late: int = 0
    """How many there were, or had no time at all."""
    _held: dict[int, list[pa.Table]] = field(default_factory=dict)
    _newest: int = 0

    def take(self, table: pa.Table) -> None:
        times = table[self.column].cast(TIME_TYPE)
        valid = pc.is_valid(times)
        self.late += len(table) - pc.sum(valid).as_py() if len(table) else 0
        table, times = table.filter(valid), times.filter(valid)
        moments = times.cast(pa.int64()).to_numpy()
        in_time = moments >= self.closed
        self.late += int(len(moments) - in_time.sum())
        if not in_time.any():
            return
        kept = table.filter(pa.array(in_time)).add_column(
            0, pa.field(STIME, TIME_TYPE, nullable=False), times.filter(pa.array(in_time))
        )
        moments = moments[in_time]
        self._newest = max(self._newest, int(moments.max()))
        buckets = moments // self.size
        for bucket in np.unique(buckets).tolist():
            self._held.setdefault(bucket, []).append(kept.filter(pa.array(buckets == bucket)))

    def newest_of(self, table: pa.Table) -> int:
        """The newest time in some rows, 0 without any."""
        newest = pc.max(table[self.column].cast(TIME_TYPE).cast(pa.int64())).as_py()
        return 0 if newest is None else int(newest)

    def close(self, *, finally_: bool = False) -> Iterator[tuple[int, pa.Table]]:
        """The buckets to which no row may come any more, with their rows in order of time."""
        boundary = (self._newest - self.lateness) // self.size * self.size
        if finally_ and self._held:
            boundary = (max(self._held) + 1) * self.size
        self.closed = max(self.closed, boundary)
        for bucket in sorted(self._held):
            if (bucket + 1) * self.size > self.closed:
                break
            table = pa.concat_tables(self._held.pop(bucket))
            order = np.argsort(table[STIME].cast(pa.int64()).to_numpy(), kind="stable")
            yield bucket, table.take(pa.array(order))
