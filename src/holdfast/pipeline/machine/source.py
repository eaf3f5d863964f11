"""Source's end of a stream: stamps readings, logs them, publishes them by bucket.

Readings get the time at which they are taken in, so none is ever late. A boundary goes out with
every interval, whether there were readings or not: silence of a source is not its failure. What is
logged is never changed, so that a source that comes back publishes the very same again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.pipeline.machine.messages import (
    Heartbeat,
    Message,
    Read,
    Send,
    Subscribe,
    Unsubscribe,
    Vitals,
)
from holdfast.pipeline.machine.output_log import Line, Retention
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Row, Segment

# The time of a stream whose rows have times of their own: how far no row may come any more.
#
# Its newest row moves it, or, where rows stay away for long and the source is known to be well, the
# time that passes.


@dataclass(slots=True)
class EventClock:
    """In buckets of `size`, all in microseconds.

    `now` is the machine's clock, that may be wrong and may be set; `passed` one that never steps.
    """

    size: int
    lateness: int = 0
    """How much older than the newest row a row may be."""
    idle: float = math.inf
    """After so long without a row it is as if one had come that is so old."""
    closed: int = 0
    """Rows before this are late."""
    newest: int = 0
    """The time of the newest row."""
    heard: int = 0
    """When the last row came, or silence began to mean something."""
    looks: int = 2_000_000
    """The longest time between two looks at it while the process runs."""
    _came: int | None = None
    """When the newest row came; None if that was before the process was started."""
    _looked: int | None = None

    def see(self, time: int, passed: int | None = None) -> None:
        """There is a row of this time, be it late, that has just come if it is said when."""
        if time >= self.newest:
            self.newest, self._came = time, passed

    def hear(self, passed: int) -> None:
        """Silence begins anew."""
        self.heard = self._looked = passed

    def close(self) -> int:
        """Up to where no row may come any more."""
        self._move(self.newest)
        return self.closed

    def _move(self, newest: int) -> None:
        self.closed = max(self.closed, (newest - self.lateness) // self.size * self.size)

    def is_idle(self, passed: int) -> bool:
        """Whether nothing has come for so long."""
        return passed - self.heard >= self.idle

    def wake(self, now: int, passed: int) -> bool:
        """Go on without rows, if none have come for long; whether that leads anywhere."""
        self._look(passed)
        if not self.is_idle(passed):
            return False
        before = self.closed
        self._move(self._time(now, passed) - int(self.idle))
        return self.closed > before

    def next_wake(self, now: int, passed: int) -> float:
        """When silence next leads anywhere, by the machine's clock."""
        self._look(passed)
        moves = self.closed + self.size + self.lateness + self.idle - self._time(now, passed)
        return now + max(moves, self.heard + self.idle - passed)

    def _time(self, now: int, passed: int) -> int:
        """What a row would say that comes now: as much more than the newest as has passed since,
        for a machine's clock that is ahead of those who make the rows would make them all late."""
        return now if self._came is None else min(now, self.newest + passed - self._came)

    def _look(self, passed: int) -> None:
        """If the process was not running, rows may be waiting at its door: that was no silence."""
        if self._looked is not None and passed - self._looked > max(self.looks, self.idle / 2):
            self.heard = passed
        self._looked = passed


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
