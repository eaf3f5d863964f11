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

from holdfast.protocol.event_clock import EventClock
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
    clock: EventClock
    """Says which rows are late."""
    late: int = 0
    """How many there were, or had no time at all."""
    _held: dict[int, list[pa.Table]] = field(default_factory=dict)

    def take(self, table: pa.Table, passed: int | None = None) -> None:
        """`passed`: when the rows came, by a clock that never steps."""
        times = table[self.column].cast(TIME_TYPE)
        valid = pc.is_valid(times)
        self.late += len(table) - pc.sum(valid).as_py() if len(table) else 0
        table, times = table.filter(valid), times.filter(valid)
        moments = times.cast(pa.int64()).to_numpy()
        if not len(moments):
            return
        # Those that are late say what time it is as well.
        in_time = moments >= self.clock.closed
        self.clock.see(int(moments.max()), passed)
        self.late += int(len(moments) - in_time.sum())
        if not in_time.any():
            return
        kept = table.filter(pa.array(in_time)).add_column(
            0, pa.field(STIME, TIME_TYPE, nullable=False), times.filter(pa.array(in_time))
        )
        moments = moments[in_time]
        buckets = moments // self.clock.size
        for bucket in np.unique(buckets).tolist():
            self._held.setdefault(bucket, []).append(kept.filter(pa.array(buckets == bucket)))

    def newest_of(self, table: pa.Table) -> int:
        """The newest time in some rows, 0 without any."""
        newest = pc.max(table[self.column].cast(TIME_TYPE).cast(pa.int64())).as_py()
        return 0 if newest is None else int(newest)

    def close(self, *, finally_: bool = False) -> Iterator[tuple[int, pa.Table]]:
        """The buckets to which no row may come any more, with their rows in order of time."""
        closed, size = self.clock.close(), self.clock.size
        if finally_ and self._held:
            closed = self.clock.closed = max(closed, (max(self._held) + 1) * size)
        for bucket in sorted(self._held):
            if (bucket + 1) * size > closed:
                break
            table = pa.concat_tables(self._held.pop(bucket))
            order = np.argsort(table[STIME].cast(pa.int64()).to_numpy(), kind="stable")
            yield bucket, table.take(pa.array(order))
