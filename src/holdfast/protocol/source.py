"""The source's end of a stream: stamps readings, logs them before anybody sees them, publishes.

Readings get the time at which they are taken in, so none is ever late. A boundary goes out with
every interval, whether there were readings or not: silence of a source is not its failure. What is
logged is never changed, so that a source that comes back publishes the very same again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.protocol.line import Line, Retention
from holdfast.protocol.messages import (
    Heartbeat,
    Message,
    Read,
    Send,
    Subscribe,
    Unsubscribe,
    Vitals,
)
from holdfast.protocol.states import State
from holdfast.tuples import Row, Segment

__all__ = ["Log", "Persist", "Source"]


@dataclass(frozen=True, slots=True)
class Log:
    """One entry of a source's log: the rows up to a boundary."""

    segment: Segment


@dataclass(frozen=True, slots=True)
class Persist:
    """A command: write this to the log, then call `persisted`."""

    entry: Log


class Source:
    """Publishes one stream."""

    def __init__(
        self,
        stream: str,
        readers: Sequence[str],
        *,
        interval: int,
        ordered: bool = False,
        retention: Retention | None = None,
        start: int = 0,
        log: Iterable[Log] = (),
    ) -> None:
        """`interval`: between boundaries. `ordered`: publish an interval as soon as a reading after
        it is in, without waiting for the clock. `start`: where the stream begins. `log`: what was
        logged before a restart, in its order."""
        self.stream = stream
        self.interval = interval
        self.ordered = ordered
        self.refused = 0
        """Readings that were not taken in because the log was full."""
        self.line = Line(stream, readers, start=start, retention=retention)
        self._rows: list[Row] = []
        self._safe: dict[int, Segment] = {}
        """What is in the log but for something before it."""
        self._logged = start
        """Up to where all is in the log, or on its way there."""
        for entry in log:
            self.line.publish(entry.segment)
            self._logged = entry.segment.end

    @property
    def next_wake(self) -> float:
        """When the interval ends."""
        return self._logged + self.interval if not self.line.is_full else math.inf

    def record(self, key: Any, value: Any, now: int) -> list[Persist]:
        """Take in a reading; refused, before it has a time, while the log is full."""
        if self.line.is_full:
            self.refused += 1
            return []
        newest = self._rows[-1].stime if self._rows else 0
        row = Row(max(now, self._logged, newest), key, value)
        due = self._close(row.stime) if self.ordered else []
        self._rows.append(row)
        return due

    def wake(self, now: int) -> list[Persist]:
        return self._close(now)

    def _close(self, now: int) -> list[Persist]:
        """Log all intervals that have ended, as one segment."""
        boundary = now // self.interval * self.interval
        if boundary <= self._logged or self.line.is_full:
            return []
        rows = tuple(row for row in self._rows if row.stime < boundary)
        self._rows = self._rows[len(rows) :]
        start, self._logged = self._logged, boundary
        return [Persist(Log(Segment(start, boundary, rows)))]

    def persisted(self, entry: Log) -> list[Send]:
        """The entry is safe: publish it, once all before it are safe too."""
        self._safe[entry.segment.start] = entry.segment
        sends: list[Send] = []
        while (following := self._safe.pop(self.line.end, None)) is not None:
            sends += self.line.publish(following)
        return sends

    def receive(self, sender: str, message: Message) -> list[Send]:
        match message:
            case Subscribe(stream=self.stream):
                return self.line.subscribe(sender, message)
            case Unsubscribe(stream=self.stream):
                self.line.unsubscribe(sender, message)
            case Read(stream=self.stream):
                return self.line.read(sender, message)
            case Heartbeat():
                if self.stream in message.acks:
                    self.line.acknowledge(sender, message.acks[self.stream])
                progress = self.line.progress(sender, State.STABLE)
                more = self.line.confirm(sender, message.read.get(self.stream, 0))
                return [Send(sender, Vitals({self.stream: progress}, message.sent)), *more]
        return []
