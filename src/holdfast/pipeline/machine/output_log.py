"""Output log of one stream: the stable line and, ahead of it, the tentative line.

The stable line only ever grows: what a stage calculates again after a restart is dropped here.
Each reader has a place of its own, and is told in this order: UNDO if it was shown previews, the
stable segments from its place on, REC_DONE once all previews are corrected, new previews. So no
stable row ever follows a preview without an UNDO between them, and dropping previews and UNDOs
leaves the stable stream. Previews are shown and forgotten, but for the newest.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.messages import (
    Again,
    Feed,
    Gap,
    Item,
    LogPiece,
    Preview,
    Progress,
    Read,
    RecDone,
    Send,
    Stable,
    Subscribe,
    Undo,
    Unsubscribe,
)
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Segment


class Spool:
    """A queue of segments in which a place is found in logarithmic time."""

    def __init__(self) -> None:
        self._kept: list[Segment] = []
        self._first = 0
        """Index of the oldest segment that is kept; those before it are dropped in bulk."""

    def __len__(self) -> int:
        return len(self._kept) - self._first

    @property
    def start(self) -> int | None:
        """Start of the oldest segment; None without any."""
        return self._kept[self._first].start if len(self) else None

    @property
    def first_rows(self) -> int | None:
        """Start of the oldest segment that has rows; None without any."""
        # Adjacent segments without rows are one, so this looks at two of them, or at gaps.
        return next((self._kept[n].start for n in self._range() if self._kept[n].rows), None)

    def _range(self) -> range:
        return range(self._first, len(self._kept))

    def append(self, segment: Segment) -> None:
        last = self._kept[-1] if len(self) else None
        if last is not None and last.rows == segment.rows == () and last.end == segment.start:
            # So long silence costs nothing.
            self._kept[-1] = Segment(last.start, segment.end, ())
            return
        self._kept.append(segment)

    def prepend(self, segment: Segment) -> None:
        """Put a segment before all others; it ends where they begin."""
        first = self._kept[self._first] if len(self) else None
        if first is not None and first.rows == segment.rows == () and first.start == segment.end:
            self._kept[self._first] = Segment(segment.start, first.end, ())
            return
        if self._first:
            self._first -= 1
            self._kept[self._first] = segment
        else:
            # Room for as many again, so that a long row of these takes linear time.
            room = max(len(self._kept), 1)
            self._kept[:0] = [segment] * room
            self._first = room - 1

    def before(self, boundary: int) -> Iterator[Segment]:
        """The segments with something before the boundary, newest first."""
        end = bisect_left(self._kept, boundary, lo=self._first, key=attrgetter("start"))
        for number in reversed(range(self._first, end)):
            segment = self._kept[number]
            yield segment if segment.end <= boundary else _cut(segment, boundary)

    def drop_before(self, boundary: int) -> None:
        """Drop the segments that end by then."""
        self._first = self._after(boundary)
        if self._first > len(self):
            del self._kept[: self._first]
            self._first = 0

    def since(self, boundary: int) -> Iterator[Segment]:
        """The segments with something at or after the boundary, oldest first."""
        for number in range(self._after(boundary), len(self._kept)):
            yield self._kept[number].after(boundary)

    def _after(self, boundary: int) -> int:
        """Index of the first segment that ends after the boundary."""
        return bisect_right(self._kept, boundary, lo=self._first, key=attrgetter("end"))


def _cut(segment: Segment, boundary: int) -> Segment:
    rows = tuple(row for row in segment.rows if row.stime < boundary)
    return Segment(segment.start, boundary, rows)


NEWEST_PREVIEWS: Final = 16
"""As many previews are kept for readers that come from another replica."""
AT_ONCE: Final = 32
"""Segments that a reader is sent before it has confirmed to have read any."""
WINDOW: Final = 16 << 20
"""Bytes that a reader is sent before that; one segment goes out whatever its size."""
PIECE: Final = 4 << 20
"""So many bytes of its log a peer is sent at once; a single segment whatever its size."""
SEGMENT: Final = 200
"""Bytes that a segment takes without any rows."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of the stable line is kept for readers that have not acknowledged it.

    `span` is in event time. Beyond it a line with `convergent` readers drops the oldest, which they
    can do without; others make the replica wait. `least` is kept for guests though all have
    acknowledged it.
    """

    span: float = math.inf
    convergent: bool = False
    least: float = 0

    def __post_init__(self) -> None:
        if self.span <= 0:
            raise InvalidArgumentError(f"retain: is {self.span}; give a span of time above 0")


@dataclass(slots=True)
class _Reader:
    subscription: int
    position: int
    """Up to where it has the stable line."""
    shown: int
    """Up to where it was shown anything, here or elsewhere; nothing is previewed twice."""
    tentative: bool
    """Whether it was shown previews that have not been withdrawn."""
    previews: bool
    owed: int | None
    """It waits for a REC_DONE: everything it was shown, here or elsewhere, ends there."""
    sent: int = 0
    unread: deque[tuple[int, int]] = field(default_factory=deque)
    """Ends and weights of the segments that it was sent and has not confirmed to have read."""
    unread_bytes: int = 0

    @property
    def is_busy(self) -> bool:
        """Whether it has enough to read for now."""
        return len(self.unread) >= AT_ONCE or self.unread_bytes >= WINDOW

    def confirm(self, boundary: int) -> None:
        while self.unread and self.unread[0][0] <= boundary:
            self.unread_bytes -= self.unread.popleft()[1]


class Line:
    """The lines of one stream, and those who read them."""

    def __init__(
        self,
        stream: str,
        readers: Sequence[str],
        *,
        start: int = 0,
        retention: Retention | None = None,
    ) -> None:
        """`readers`: all replicas and clients downstream; nothing is dropped before all of them
        have acknowledged it, unless the retention says so. Others may read, but hold nothing."""
        self.stream = stream
        self.end = start
        """The stable boundary."""
        self.previewed = start
        """Up to where previews were shown, or the stable boundary."""
        self.retention = retention or Retention()
        self.dropped_before = start
        """What was before this is kept no longer."""
        self.segments = Spool()
        self._acks = dict.fromkeys(readers, start)
        self._readers: dict[str, _Reader] = {}
        self._previews: deque[Segment] = deque(maxlen=NEWEST_PREVIEWS)

    @property
    def is_corrected(self) -> bool:
        """Whether nothing tentative is out that the stable line has not reached."""
        return self.end >= self.previewed

    @property
    def is_full(self) -> bool:
        """Whether the replica has to wait for readers before it publishes more."""
        oldest = self.segments.first_rows
        if self.retention.convergent or oldest is None:
            return False
        unread = max(oldest, self.acknowledged)
        return self.end - unread >= self.retention.span

    @property
    def acknowledged(self) -> int:
        """Up to where all readers have it; the stable boundary if there are none."""
        return min(self._acks.values(), default=self.end)

    def publish(self, segment: Segment) -> list[Send]:
        """Append to the stable line; what it has already is dropped."""
        if segment.end <= self.end:
            return []
        segment = segment.after(self.end)
        self.segments.append(segment)
        self.end = segment.end
        self.previewed = max(self.previewed, self.end)
        while self._previews and self._previews[0].end <= self.end:
            self._previews.popleft()
        self._truncate()
        return self._tell_all()

    def preview(self, segment: Segment) -> list[Send]:
        """Show a piece that the stable line has not reached."""
        if segment.end <= self.end:
            return []
        self.previewed = max(self.previewed, segment.end)
        self._previews.append(segment)
        return self._tell_all()

    def skip(self, boundary: int) -> None:
        """Go on from here: what is between the stable boundary and this will never be published."""
        self.end = max(self.end, boundary)
        self.previewed = max(self.previewed, self.end)
        if not self.segments:
            self.dropped_before = self.end

    def restore(self, segments: Sequence[Segment], end: int) -> None:
        """Take over what a peer has kept of the same stream."""
        for segment in segments:
            self.segments.append(segment)
        self.end = self.previewed = max(end, segments[-1].end) if segments else end
        self.dropped_before = segments[0].start if segments else end

    def older(self, before: int) -> LogPiece:
        """A piece of the stable line that ends at a boundary, for a peer that has less of it."""
        segments: list[Segment] = []
        start, weight = self.dropped_before, 0
        place = before
        for segment in self.segments.before(before):
            if segment.end != place:
                # What is on the other side of a hole does not lead up to here.
                start = place
                break
            weight += SEGMENT + sum(getattr(row.value, "size", 0) for row in segment.rows)
            if segments and weight > PIECE:
                break
            segments.append(segment)
            place = segment.start
        return LogPiece(self.stream, before, min(start, place), tuple(reversed(segments)))

    def prepend(self, piece: LogPiece) -> None:
        """Take over older segments that a peer has kept."""
        for segment in reversed(piece.segments):
            self.segments.prepend(segment)
            self.dropped_before = segment.start
        self._truncate()

    def repeat(self, reader: str, again: Again) -> list[Send]:
        """Send a reader a piece that has been calculated again for it."""
        known = self._readers.get(reader)
        if known is None:
            return []
        feed = Feed(self.stream, known.subscription, known.sent, (again,))
        known.sent += 1
        return [Send(reader, feed)]

    def subscribe(self, reader: str, asked: Subscribe) -> list[Send]:
        known = self._readers.get(reader)
        if known and known.subscription >= asked.subscription:
            return []
        self._readers[reader] = _Reader(
            asked.subscription,
            asked.after,
            asked.shown,
            tentative=asked.standing and asked.shown > asked.after,
            previews=asked.previews,
            owed=asked.shown,
        )
        return self._tell(reader)

    def unsubscribe(self, reader: str, asked: Unsubscribe) -> None:
        known = self._readers.get(reader)
        if known is not None and known.subscription == asked.subscription:
            del self._readers[reader]

    def confirm(self, reader: str, boundary: int) -> list[Send]:
        """This reader has read so far: what it may be sent now."""
        known = self._readers.get(reader)
        if known is None:
            return []
        waits = known.is_busy
        known.confirm(boundary)
        return self._tell(reader) if waits and not known.is_busy else []

    def read(self, reader: str, said: Read) -> list[Send]:
        """A reader has read so far of its subscription; words about an earlier one are ignored."""
        known = self._readers.get(reader)
        if known is None or known.subscription != said.subscription:
            return []
        return self.confirm(reader, said.boundary)

    def leave(self, reader: str) -> None:
        """It is gone; it may come again."""
        self._readers.pop(reader, None)

    def progress(self, reader: str, state: State) -> Progress:
        """What a reader is told of the stream that is in this state."""
        known = self._readers.get(reader)
        subscription, sent = (-1, 0) if known is None else (known.subscription, known.sent)
        return Progress(state, self.end, self.dropped_before, subscription, sent, self.previewed)

    def acknowledge(self, reader: str, boundary: int) -> None:
        """This reader needs nothing before the boundary, ever again."""
        name = known_as(reader, self._acks)
        if name is not None and boundary > self._acks[name]:
            self._acks[name] = boundary
            self._truncate()

    def knows(self, reader: str) -> bool:
        """Whether anything is kept for it."""
        return known_as(reader, self._acks) is not None

    def _truncate(self) -> None:
        limit = min(self.acknowledged, self.end - self.retention.least)
        if self.retention.convergent:
            limit = max(limit, self.end - self.retention.span)
        if limit > self.dropped_before:
            self.segments.drop_before(math.floor(min(limit, self.end)))
            oldest = self.segments.start
            self.dropped_before = self.end if oldest is None else max(self.dropped_before, oldest)

    def _tell_all(self) -> list[Send]:
        return [send for reader in self._readers for send in self._tell(reader)]

    def _tell(self, name: str) -> list[Send]:
        """All that this reader is to be told and has not been."""
        reader = self._readers[name]
        items: list[Item] = []
        self._close_gap(reader, self.dropped_before, items)
        for segment in self.segments.since(reader.position):
            if reader.is_busy:
                break
            weight = segment.weight
            reader.unread.append((segment.end, weight))
            reader.unread_bytes += weight
            self._close_gap(reader, segment.start, items)
            self._withdraw(reader, items)
            items.append(Stable(segment))
            reader.position = segment.end
            reader.shown = max(reader.shown, segment.end)
        caught_up = reader.owed is not None and min(self.end, reader.position) >= reader.owed
        if caught_up and self.is_corrected:
            items.append(RecDone())
            reader.owed = None
        if reader.previews and not reader.is_busy:
            for preview in self._previews:
                if preview.end > reader.shown:
                    # What of it stands already is not shown twice.
                    seen = reader.shown if reader.tentative else reader.position
                    items.append(Preview(preview.after(seen)))
                    reader.shown = preview.end
                    reader.tentative = True
                    reader.owed = max(preview.end, reader.owed or 0)
        if not items:
            return []
        feed = Feed(self.stream, reader.subscription, reader.sent, tuple(items))
        reader.sent += 1
        return [Send(name, feed)]

    def _close_gap(self, reader: _Reader, boundary: int, items: list[Item]) -> None:
        if reader.position < boundary:
            self._withdraw(reader, items)
            items.append(Gap(boundary))
            reader.position = boundary
            reader.shown = max(reader.shown, boundary)

    def _withdraw(self, reader: _Reader, items: list[Item]) -> None:
        if reader.tentative:
            items.append(Undo(reader.position))
            reader.tentative = False


def known_as(reader: str, names: Container[str]) -> str | None:
    """Which of the names a reader has: its own, or that of the seat for which it reads, `clean@2`
    of `clean@2/1`."""
    seat = reader.partition("/")[0]
    return next((name for name in (reader, seat) if name in names), None)
