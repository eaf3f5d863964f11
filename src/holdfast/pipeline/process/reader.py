"""Reader of one stream, for sinks, `holdfast tail` and programs.

Reads the best replica, switches when it fails, and tells in order: rows that are final, rows that
are tentative, that tentative ones are withdrawn, that all is corrected.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Condition
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import StoreUnavailableError
from holdfast.pipeline.machine.client import Client, Shown
from holdfast.pipeline.machine.messages import Again, Feed, Gap, Item, Message, Send, Stable
from holdfast.pipeline.machine.sharing.client import SharedClient
from holdfast.pipeline.machine.subscription import Intake, SwitchIntake
from holdfast.pipeline.machine.tuples import Kind, Segment
from holdfast.pipeline.process.fault_tracker import Verdicts
from holdfast.pipeline.process.service import Neighbours
from holdfast.runtime.loop import Clock, Inbox, Loop
from holdfast.storage.untrusted import ARROW_ERRORS
from holdfast.transport.codec import weight
from holdfast.transport.security import Security

# Whether rows fit the input that they are for: asked where a replica is believed unheard.
#
# `sample` lets buckets of one replica through before anybody has compared them. What the query
# cannot read would end it, after each restart again; so it is refused on receipt.


class Fitting:
    """Knows the columns of each input, the event time first, and the `size` of buckets."""

    def __init__(self, schemas: Mapping[str, pa.Schema], size: int) -> None:
        self._schemas = schemas
        self._size = size

    def of(self, feed: Feed) -> Feed:
        """The same message if all of it fits; else with a gap in the place of what does not, as if
        its sender did not have it: who has a gap is not believed any more."""
        schema = self._schemas.get(feed.stream)
        if schema is None:
            return feed
        items = tuple(self._fitted(item, schema) for item in feed.items)
        return feed if items == feed.items else replace(feed, items=items)

    def _fitted(self, item: Item, schema: pa.Schema) -> Item:
        if isinstance(item, Stable | Again) and not self._fits(item.segment, schema):
            return Gap(item.segment.end)
        return item

    def _fits(self, segment: Segment, schema: pa.Schema) -> bool:
        return all(
            _has_columns(table, schema) and self._is_of(row.stime, table)
            for row in segment.rows
            for table in [row.value.table()]
        )

    def _is_of(self, stime: int, table: pa.Table) -> bool:
        """Whether its event times are of the bucket of this one."""
        if not table.num_rows:
            return True
        times = table.column(0).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        found = pc.min_max(times).as_py()
        return {found["min"] // self._size, found["max"] // self._size} == {stime // self._size}


def _has_columns(table: pa.Table, schema: pa.Schema) -> bool:
    if table.schema.names != schema.names:
        return False
    try:
        for column, field in zip(table.columns, schema, strict=True):
            column.cast(field.type)
            if column.null_count and not field.nullable:
                return False
    except ARROW_ERRORS:
        return False
    return True


WAITING = 1024
"""So much may wait for the application; then the stream waits too."""
WAITING_BYTES = 64 << 20
"""So many bytes of rows, but for the piece that comes next."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a reader is told: rows, or a word about them."""

    kind: Kind
    boundary: int
    """Of rows: up to where they go. Of an UNDO: what is before this stands."""
    rows: pa.Table | None = None
    """With their event time in `stime`, in the stream's order."""


class Reader:
    """Iterates over what is told; a context manager. `position`: what is before has been read."""

    def __init__(
        self,
        stream: str,
        publishers: Mapping[str, str],
        *,
        me: str,
        security: Security | None = None,
        tentative: bool = True,
        position: int = 0,
        may_skip: bool = False,
        acknowledges: bool = False,
        heartbeat: int = 100_000,
        missed: int = 3,
        verdicts: Verdicts | None = None,
        seats: Mapping[str, Sequence[str]] | None = None,
        size: int = 0,
        clock: Callable[[], int] | None = None,
    ) -> None:
        """`publishers`: the parties that publish it, and their addresses. `me`: the name we are
        known by; a topology knows its sinks, all others are guests for whom nothing is kept.
        `acknowledges`: what was told is kept by those before us until `acknowledge` is called.
        `verdicts`: compare the publishers, in buckets of this `size`; else the best is read.
        `seats`: the parts of the stream, if the publishers share the work: final rows only."""
        self._verdicts = verdicts
        self._client: Client | SharedClient
        if seats:
            self._client = SharedClient(
                seats, heartbeat=heartbeat, missed=missed, position=position, may_skip=may_skip
            )
        else:
            intake: Intake | None = None
            if verdicts is not None:
                grace = heartbeat * (missed + 2)
                intake = verdicts.intakes(size=size, grace=grace, position=position)[stream]
            self._client = Client(
                stream,
                tuple(publishers),
                heartbeat=heartbeat,
                missed=missed,
                tentative=tentative,
                position=position,
                may_skip=may_skip,
                intake=intake,
            )
        if acknowledges:
            self._client.done = position
        self._told: deque[Told] = deque()
        self._told_bytes = 0
        self._is_closing = False
        self._changed = Condition()
        self._loop = Loop(me, clock or Clock(), self._wake, self._next_wake)
        self._inboxes = {party: Inbox(self._loop) for party in publishers}
        self._neighbours = Neighbours(
            me, publishers, security, self._take, heartbeat=heartbeat / 1e6
        )
        self._loop.start()

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Pieces of event time that no replica kept any more."""
        return list(self._client.gaps)

    @property
    def publisher(self) -> str | None:
        """The one that is read now; None if all are: they are compared, or share the work."""
        intake = self._client.intake if isinstance(self._client, Client) else None
        return intake.choice.current if isinstance(intake, SwitchIntake) else None

    @property
    def links(self) -> dict[str, bool]:
        """Those who publish it, and whether there is a connection to each."""
        return {party: link.is_connected for party, link in self._neighbours.links.items()}

    @property
    def is_connected(self) -> bool:
        return any(self.links.values())

    @property
    def found(self) -> dict[str, Any]:
        """What was found out about the publishers, if they are compared: who lied, who is in
        quarantine."""
        return {} if self._verdicts is None else self._verdicts.status

    def next(self, timeout: float | None = None) -> Told | None:
        """What is told next; None after so many seconds without anything, or when it is closed."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not self._is_closing:
            rest = deadline - time.monotonic()
            with self._changed:
                if self._changed.wait_for(lambda: self._told, min(0.1, max(rest, 0))):
                    told = self._told.popleft()
                    self._told_bytes -= _bytes_of(told)
                    self._changed.notify_all()
                    return told
            if self._loop.error is not None:
                raise StoreUnavailableError(
                    f"the reader has failed ({self._loop.failure}); open a new one"
                ) from self._loop.error
            if rest <= 0:
                return None
        return None

    def acknowledge(self, boundary: int) -> None:
        """What is before this is safe with us."""

        def note(now: int) -> None:
            self._client.done = max(boundary, self._client.done or 0)

        self._loop.post(note)

    def __iter__(self) -> Iterator[Told]:
        while (told := self.next()) is not None:
            yield told

    def close(self) -> None:
        self._is_closing = True
        self._neighbours.close()
        self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next_wake(self) -> float:
        return self._client.next_wake

    def _wake(self, now: int) -> None:
        self._do(*self._client.wake(now))

    def _take(self, sender: str, message: Message) -> None:
        self._inboxes[sender].put(
            weight(message), lambda now: self._do(*self._client.receive(sender, message, now))
        )

    def _do(self, shown: list[Shown], sends: list[Send]) -> None:
        for send in sends:
            self._neighbours.send(send.to, send.message)
        if self._verdicts is not None:
            self._verdicts.look()
        for each in shown:
            rows = None
            if each.kind in (Kind.INSERT, Kind.TENTATIVE):
                tables = [row.value.table() for row in each.rows]
                rows = pa.concat_tables(tables) if tables else None
            self._tell(Told(each.kind, each.boundary, rows))

    def _tell(self, told: Told) -> None:
        with self._changed:
            while not self._is_closing:
                if self._changed.wait_for(self._has_room, 0.1):
                    self._told.append(told)
                    self._told_bytes += _bytes_of(told)
                    self._changed.notify_all()
                    return

    def _has_room(self) -> bool:
        return len(self._told) < WAITING and self._told_bytes < WAITING_BYTES


def _bytes_of(told: Told) -> int:
    return 0 if told.rows is None else int(told.rows.nbytes)
