"""What a stage takes, of what the replica that runs it reports of its Spark.

Everything is counted by the span of the stream that was worked on, not by the clock: a stage that
does not keep up, or catches up, takes as much as its rows ask for, which may be more than there is.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.protocol.contracts import Load

__all__ = ["Meter"]


class _Counts(NamedTuple):
    """Since the replica was started."""

    boundary: float
    """Up to where its stream is final, in seconds."""
    busy: float
    rows: float
    bytes: float


@dataclass(slots=True)
class Meter:
    """Of one task. `rows_per_second`: those that take all of the cpu; None: Spark's busy time."""

    bytes_per_second: float
    rows_per_second: float | None = None
    _last: _Counts | None = None

    def look(self, status: Mapping[str, Any]) -> Load | None:
        """The load since the last look; None if the stream has not gone on since then."""
        counts = _Counts(
            float(status.get("boundary", 0)) / 1e6,
            float(status.get("busy_seconds", 0.0)),
            float(status.get("input_rows", 0)),
            float(status.get("received_bytes", 0)),
        )
        last = self._last
        if last is not None and last.boundary == counts.boundary:
            return None
        self._last = counts
        # Before its first bucket a stream ends in 1970; one that was started anew counts from 0.
        if last is None or not last.boundary or any(map(operator.lt, counts, last)):
            return None
        span = counts.boundary - last.boundary
        cpu = (counts.busy - last.busy) / span
        if self.rows_per_second is not None:
            cpu = (counts.rows - last.rows) / span / self.rows_per_second
        return Load(cpu, (counts.bytes - last.bytes) / span / self.bytes_per_second)
