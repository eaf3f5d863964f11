"""`order` and `switch`: the rows of several streams become one input, bucket by bucket (SUnion).

A bucket is complete when the boundary of every stream has passed it; its rows are then the same on
all replicas, in the same order. With a finite `max_delay` (`switch`) the gate does not wait for
ever: when its boundary has stalled that long, what there is of the next buckets is to be previewed,
and later, when they are complete, processed again. With an infinite one it only orders.

The gate has two cursors: `base`, the next bucket for the state that sees complete buckets only, and
`fork`, the next one for the state that makes previews.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from heapq import merge
from itertools import chain, groupby, islice
from operator import attrgetter
from statistics import median_high
from typing import Any, Final

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.gates.waiting import ByBucket, Shelf, Waiting
from holdfast.pipeline.machine.tuples import Row, Segment, bucket_of, weight_of
from holdfast.runtime.adjusted_clock import SLOWER

LAGS: Final = 64
"""So many buckets tell how long after its end a bucket is usually complete."""
RECENT: Final = 16
"""So many do while a source waits for the clock of its machine: each is later than the last one."""
WAITS: Final = 15
"""So many times when some were complete tell how long the first of them is usually waited for."""


class Variant(Enum):
    """What becomes of new rows while something is missing."""

    SUSPEND = "suspend"
    """They wait until nothing is missing any more."""
    DELAY = "delay"
    """Each waits for its whole delay."""
    PROCESS = "process"
    """The first wait for their whole delay; after that no row waits."""


@dataclass(frozen=True, slots=True)
class Delays:
    """How long the gate waits for what is missing."""

    max_delay: float = math.inf
    """How much later than usual an answer may come."""
    headroom: int = 0
    """What of that is left to calculation and transport."""
    failing: Variant = Variant.PROCESS
    """While nothing can be corrected."""
    correcting: Variant = Variant.PROCESS
    """While corrections are being made."""
    patience: int = 0
    """How long a bucket that one stream has reached waits for the others when nothing need wait."""
    inputs: Mapping[str, float] = field(default_factory=dict)
    """Streams with a shorter `max_delay` of their own."""

    def __post_init__(self) -> None:
        if not self.max_delay > self.headroom >= 0:
            raise InvalidArgumentError(
                f"max_delay: is {self.max_delay} with headroom {self.headroom}; give a max_delay "
                "above its headroom, or infinity to wait for ever"
            )
        for stream, delay in self.inputs.items():
            if delay <= self.headroom:
                raise InvalidArgumentError(
                    f"max_delay of {stream}: is {delay} with headroom {self.headroom}; give more"
                )

    @property
    def are_infinite(self) -> bool:
        """Whether nothing is ever shown before all of it is there."""
        return self.max_delay == math.inf == min(self.inputs.values(), default=math.inf)

    def of(self, stream: str) -> float:
        """How long rows of this stream may wait here."""
        return min(self.max_delay, self.inputs.get(stream, math.inf)) - self.headroom


@dataclass(frozen=True, slots=True)
class Stretch:
    """What the gate releases: the rows of each stream in the buckets from `first` to `stop`.

    Buckets without rows cost nothing, so a stretch may be long."""

    first: int
    stop: int
    start: int
    end: int
    rows: Mapping[str, Sequence[Row]]


class Order:
    """A gate over `streams`, with buckets of `size`."""

    def __init__(
        self,
        streams: Sequence[str],
        size: int,
        delays: Delays,
        now: int,
        *,
        sort: Callable[[Row], Any] = attrgetter("stime"),
        first: int = 0,
        room: float = math.inf,
        shelf: Shelf | None = None,
    ) -> None:
        """`sort`: the order within a bucket; rows that it holds for equal keep their stream's.
        `room`: bytes of each stream that are kept in memory: of stable rows, where there is a shelf
        for others, for without one whoever reads the streams has to stop; and of previews."""
        if size < 1:
            raise InvalidArgumentError(f"gate: bucket size is {size}; give at least 1 microsecond")
        if not streams:
            raise InvalidArgumentError("gate: no streams; give at least one")
        unknown = sorted(set(delays.inputs) - set(streams))
        if unknown:
            raise InvalidArgumentError(
                f"max_delay: given for {', '.join(unknown)}, which the gate does not read; "
                f"give it for some of {', '.join(streams)}"
            )
        self.streams = tuple(streams)
        self.size = size
        self.delays = delays
        self.base = first
        self.fork: int | None = None
        """None while nothing tentative is made."""
        self.kept = first
        """Buckets before this one are never asked for again."""
        self._sort = sort
        self._stable = dict.fromkeys(self.streams, first * size)
        self._previewed = dict.fromkeys(self.streams, first * size)
        self._rows = {stream: Waiting(size, room, shelf) for stream in self.streams}
        self._previews: dict[str, ByBucket[tuple[Row, ...]]] = {s: ByBucket() for s in self.streams}
        self._preview_bytes = dict.fromkeys(self.streams, 0)
        self._room = room
        self.previews_dropped = 0
        """Buckets of previews that were dropped before the fork came to them, for want of room."""
        self._marks: dict[str, ByBucket[int]] = {s: ByBucket() for s in self.streams}
        """Up to which bucket each stream has come, be it in previews, and when."""
        self._complete = first
        self._advanced = now
        self._not_before = now
        self._lags: deque[tuple[int, int]] = deque(maxlen=LAGS)
        """How long after its end, by our clock, a bucket was complete, and its end."""
        self._waits: deque[int] = deque(maxlen=WAITS)
        """The same of the first of several that were complete at once."""
        self._wait = 0
        """As long as half of these, or longer."""

    @property
    def complete(self) -> int:
        """The first bucket that is not complete."""
        return self._complete

    @property
    def backlog(self) -> int:
        """How many complete buckets wait for the base."""
        return self._complete - self.base

    @property
    def buffered(self) -> int:
        """How many buckets, of all streams, hold rows."""
        return sum(map(len, self._rows.values())) + sum(map(len, self._previews.values()))

    def held(self, stream: str) -> int:
        """Bytes of the stable rows of a stream that are held in memory."""
        return self._rows[stream].in_memory

    @property
    def held_in_memory(self) -> int:
        """Bytes of all rows that are held in memory."""
        stable = sum(rows.in_memory for rows in self._rows.values())
        return stable + sum(self._preview_bytes.values())

    @property
    def held_on_shelf(self) -> int:
        """Bytes of all rows that are not."""
        return sum(rows.on_shelf for rows in self._rows.values())

    @property
    def newest(self) -> int:
        """The first bucket that no stream has reached the end of."""
        return max(max(self._stable.values()), max(self._previewed.values())) // self.size

    def boundary(self, stream: str) -> int:
        return self._stable[stream]

    def take(self, stream: str, segment: Segment, now: int) -> None:
        """The next stable segment of a stream; it begins where the last one ended."""
        for number, rows in self._by_bucket(segment.rows):
            self._rows[stream].add(number, list(rows))
        self._stable[stream] = segment.end
        self._mark(stream, segment.end, now)
        self._drop_previews(stream, segment.end // self.size)
        complete = self._frontier()
        if complete > self._complete:
            if now - self._advanced >= self.size // 2:
                self._waits.append(now - (self._complete + 1) * self.size)
                self._wait = median_high(self._waits)
            self._complete = complete
            self._advanced = now
            self._note_lag(now, complete * self.size)

    def _note_lag(self, now: int, end: int) -> None:
        """A source that waits for the clock of its machine takes a ninth longer for every bucket:
        what was usual long ago is not any more, and would never be again."""
        self._lags.append((now - end, end))
        recent = [*self._lags][-RECENT:]
        if len(recent) < RECENT:
            return
        lags = [lag for lag, _ in recent]
        steady = [lag - end // (SLOWER - 1) for lag, end in recent]
        if 2 * (max(steady) - min(steady)) < max(lags) - min(lags):
            self._lags = deque(recent, LAGS)

    def _by_bucket(self, rows: Sequence[Row]) -> Iterator[tuple[int, Iterator[Row]]]:
        return groupby(rows, lambda row: bucket_of(row.stime, self.size))

    def _frontier(self) -> int:
        return min(self._stable.values()) // self.size

    def preview(self, stream: str, segment: Segment, now: int) -> None:
        """Tentative rows of a stream, in place of earlier ones for the same buckets."""
        if segment.end <= self._stable[stream] or self.delays.are_infinite:
            return
        segment = segment.after(self._stable[stream])
        previews = self._previews[stream]
        first, last = segment.start // self.size, (segment.end - 1) // self.size
        earlier = [row for _, rows in previews.pop(first, last + 1) for row in rows]
        new = [row for row in earlier if row.stime < segment.start] + [*segment.rows]
        for number, rows in self._by_bucket(new):
            previews[number] = (*(previews.get(number) or ()), *rows)
        self._preview_bytes[stream] += weight_of(new) - weight_of(earlier)
        while self._preview_bytes[stream] > self._room and len(previews) > 1:
            # The fork does not keep up; what is newest is worth most.
            self._drop_previews(stream, next(previews.numbers()) + 1)
            self.previews_dropped += 1
        self._previewed[stream] = max(self._previewed[stream], segment.end)
        self._mark(stream, segment.end, now)

    def _drop_previews(self, stream: str, number: int) -> None:
        for rows in self._previews[stream].drop_before(number):
            self._preview_bytes[stream] -= weight_of(rows)

    def _mark(self, stream: str, end: int, now: int) -> None:
        if self.delays.are_infinite:
            return
        marks, bucket = self._marks[stream], end // self.size
        if bucket > (self._next if marks.last is None else marks.last):
            marks[bucket] = now

    def _reached(self, number: int) -> dict[str, int]:
        """The streams that have come to the end of this bucket, and when they did."""
        times = {stream: marks.after(number) for stream, marks in self._marks.items()}
        return {stream: time for stream, time in times.items() if time is not None}

    @property
    def _next(self) -> int:
        """The first bucket that is still to be previewed, or to be processed if none is."""
        return self.base if self.fork is None else max(self.base, self.fork)

    def _drop_marks(self) -> None:
        for marks in self._marks.values():
            if marks.last is not None:
                # The newest stays for a fork that has to begin again behind it.
                marks.drop_before(min(self._next + 1, marks.last))

    def excuse(self, now: int) -> None:
        """We were not running, or our clock was set: nothing is missed yet, and how late buckets
        usually are is to be learned anew, for the times that we know may be those of another
        clock."""
        self._not_before = now + self.size
        self._advanced = now
        self._lags.clear()
        self._waits.clear()

    def next_stable(self, most: int = 1) -> Stretch | None:
        """What the base is to process next, if it is complete: at most so many buckets that have
        rows."""
        if self.base >= self._complete:
            return None
        with_rows = _with_rows(self.base, self._complete, *self._rows.values())
        stop = next(islice(with_rows, most, None), self._complete)
        return self._release(self.base, stop)

    def due(self, correcting: bool, *, hopeful: bool = True, failing: bool = True) -> float:
        """When the next preview is to be made, if nothing changes before.

        `hopeful`: the base is at work and may get to what is complete in time. `failing`: some
        stream is known to be away or not right."""
        if self.fork is None:
            # A fork begins where the base stands.
            return self._first_due(self.base) if self.base == self._complete else math.inf
        return self._due(self.fork, correcting, hopeful, failing)

    def _due(self, number: int, correcting: bool, hopeful: bool, failing: bool = True) -> float:
        """When the fork is to preview this bucket."""
        reached = self._reached(number)
        if not reached:
            return math.inf
        variant = self.delays.correcting if correcting else self.delays.failing
        if variant is Variant.SUSPEND:
            return math.inf
        # While buckets are complete as they usually are, nothing is missing: one stream is only
        # ahead of another. A fork that went with it would never be caught up with.
        missing: float = self._missed(self._complete) + self.size
        if not failing and self._waits:
            # A stream of which nobody says anything bad may come in jumps: several buckets at
            # once, of which the first is usually waited for so long.
            usual = (self._complete + 2) * self.size + self._wait
            missing = max(missing, min(usual, self._first_due(number)))
        if variant is Variant.DELAY:
            delayed = min(time + self.delays.of(stream) for stream, time in reached.items())
            return delayed if len(reached) == len(self.streams) else max(delayed, missing)
        if hopeful and number < self._complete:
            return self._first_due(number)
        if len(reached) == len(self.streams):
            return max(reached.values())
        return min(
            max(min(reached.values()) + self.delays.patience, missing), self._first_due(number)
        )

    def _first_due(self, number: int) -> float:
        """A bucket is missed from when it would usually have been complete.

        That is a time after its end, the same all along a chain of gates: if every one of them
        waits for its whole delay from there, they wait together and not one after another.
        """
        reached = self._reached(number)
        if not reached:
            return math.inf
        missed = self._missed(number)
        return min(
            max(missed + self.delays.of(stream), time, self._not_before)
            for stream, time in reached.items()
        )

    def _missed(self, number: int) -> int:
        """When this bucket would usually have been complete."""
        if not self._lags:
            return self._advanced + self.size
        return (number + 1) * self.size + min(self._lags)[0]

    def next_preview(
        self,
        now: int,
        correcting: bool,
        *,
        hopeful: bool = True,
        failing: bool = True,
        most: int = 1,
    ) -> Stretch:
        """What there is of the bucket that is to be previewed next and of those after it that are
        due too: at most so many that have rows. The fork begins here if there is none."""
        if self.fork is None:
            self.fork = self.base

        def is_later(number: int) -> bool:
            return self._due(number, correcting, hopeful, failing) > now

        first, newest = self.fork, max(self.newest, self.fork + 1)
        stop = first
        with_rows = _with_rows(first, newest, *self._rows.values(), *self._previews.values())
        for number in chain(with_rows, (newest,)):
            # Of buckets without rows between two that have some, later ones are due later.
            stop += bisect_left(range(stop, number), True, key=is_later)
            if stop < number or number == newest or not most or is_later(number):
                break
            stop, most = number + 1, most - 1
        return self._release(first, max(stop, first + 1))

    def _release(self, first: int, stop: int) -> Stretch:
        rows: dict[str, Sequence[Row]] = {}
        for stream in self.streams:
            found: list[Row] = []
            for number in _with_rows(first, stop, self._rows[stream]):
                found += self._rows[stream][number]
            stable, previews = self._stable[stream], self._previews[stream]
            for number in _with_rows(max(first, stable // self.size), stop, previews):
                found += (row for row in previews[number] if row.stime >= stable)
            rows[stream] = sorted(found, key=self._order)
        return Stretch(first, stop, first * self.size, stop * self.size, rows)

    def _order(self, row: Row) -> tuple[int, Any]:
        return bucket_of(row.stime, self.size), self._sort(row)

    def base_done(self, stretch: Stretch) -> None:
        """The base has processed this."""
        self.base = stretch.stop
        self._drop_marks()

    def fork_done(self, stretch: Stretch) -> None:
        """The fork has processed this, and nobody else needs what was previewed of it."""
        for stream in self.streams:
            self._drop_previews(stream, stretch.stop)
        self.fork = stretch.stop
        self._drop_marks()

    def join(self) -> None:
        """The base has caught up: there is no fork any more."""
        self.fork = None

    def forget(self, number: int) -> None:
        """Buckets before this one are safe in the state of the stage."""
        for stream in self.streams:
            self._rows[stream].drop_before(number)
            self._drop_previews(stream, number)
        self.kept = max(self.kept, number)

    def rewind(self, number: int) -> None:
        """The stage has lost what it had done since this bucket."""
        assert self.kept <= number <= self.base
        self.base = number
        self.fork = None

    def jump(self, number: int) -> None:
        """Give up all buckets before this one. What is missing is so as long as before."""
        self.forget(number)
        self.base = max(self.base, number)
        self._drop_marks()
        for stream in self.streams:
            self._stable[stream] = max(self._stable[stream], number * self.size)
        self._complete = max(self._frontier(), self.base)


def _with_rows(first: int, stop: int, *held: ByBucket[Any] | Waiting) -> Iterator[int]:
    """The buckets from `first` to `stop` for which any of these holds rows, each once."""
    return (number for number, _ in groupby(merge(*(each.numbers(first, stop) for each in held))))
