"""Source process of a stream: takes rows in, logs them, publishes them by bucket.

What has been taken in is on disk before anybody is told so, and a bucket is logged whole before it
is published. A source that is started again publishes the very same, and then the rest.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import InvalidArgumentError, StoreCorruptError, StoreUnavailableError
from holdfast.pipeline.machine.messages import Message, Send
from holdfast.pipeline.machine.source import EventClock, Log, Persist, Source
from holdfast.pipeline.machine.tuples import STIME, Row, Segment
from holdfast.pipeline.process.replica_config import identities_of, retention_of, security_of
from holdfast.pipeline.process.replica_host import check_purpose, source_purpose
from holdfast.pipeline.process.segment_log import DiskLog, Record
from holdfast.pipeline.process.service import LogTicket, Neighbours, answer_action, read_log
from holdfast.pipeline.topology import Topology
from holdfast.runtime.adjusted_clock import SLOWER
from holdfast.runtime.loop import Clock, Loop
from holdfast.storage.chunks import Chunk
from holdfast.transport.links import Outbox
from holdfast.transport.server import LogServer

# Rows on their way into a source: what they are stamped with, and what of them is safe already.
#
# Without a time of their own, rows get the time at which they arrive. With one, they are held back
# until no earlier row may come, and ordered by it; rows that come later than that are counted and
# left out.

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


logger = logging.getLogger(__name__)


class StoppedError(Exception):
    """The work is to stop; never seen outside of it."""


class Way(Protocol):
    """Into a stream, or out of it."""

    stopping: Event
    """Whoever works on it ends soon after this is set."""
    counts: Counter[str]


AnyWay = TypeVar("AnyWay", bound=Way)


class Driver(Generic[AnyWay]):
    """Runs until it is stopped, has failed, or has no more to do."""

    def __init__(self, what: str, name: str, way: AnyWay, work: Callable[[AnyWay], None]) -> None:
        """`what`: a source or a sink."""
        self.name = name
        self.way = way
        self.ended = Event()
        """Set when it has done all there is, has failed, or was stopped."""
        self.failure: str | None = None
        """What ended it, if it was not `stop` or the end of its work."""
        self._what = what
        self._work = work
        self._thread = Thread(target=self._run, name=f"holdfast {what} {name}", daemon=True)

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.way.counts)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What it is about is finished first. May be called again."""
        self.way.stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._work(self.way)
        except StoppedError:
            pass
        except Exception as error:
            # Whoever runs it sees it and starts it anew.
            logger.exception("%s: the %s has failed", self.name, self._what)
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            self.ended.set()


class FullError(InvalidArgumentError):
    """The log is full: its readers have to come first."""


class SourceParty:
    """Runs until it is closed. `take` is for whatever brings the rows."""

    def __init__(
        self,
        topology: Topology,
        name: str,
        schema: pa.Schema,
        *,
        clock: Clock | None = None,
    ) -> None:
        """`schema`: the columns of rows as they are brought, without `stime`."""
        stream = topology.streams[name]
        self.name = name
        self.brought = schema
        self.schema = schema.insert(0, pa.field(STIME, pa.timestamp("us", "UTC"), nullable=False))
        self.clock = clock or Clock()
        self.rows = 0
        self.damaged_bytes = 0
        """Bytes of its logs that could not be read when it was started."""
        self.went_back = False
        """Whether records at the end of a log were gone when it was started."""
        self.folder: Path = topology.state_folder / name
        self._size = int(topology.bucket)
        check_purpose(self.folder, source_purpose(topology, name))
        self._log = DiskLog(self.folder / "log", durable=True)
        self._arrived = DiskLog(self.folder / "arrived", durable=True)
        """What was taken in and is not in the log."""
        records = self._found(self._log)
        self._taken: int = records[-1].facts.get("taken", 0) if records else 0
        """How often rows were taken in, in all lives."""
        self.place: Any = records[-1].facts.get("place") if records else None
        """How far whatever brings the rows has come with what was taken in."""
        self._times = (
            None
            if stream.time is None
            else EventTimes(
                stream.time, EventClock(self._size, int(stream.lateness), stream.silence)
            )
        )
        self._in_touch = True
        self._source = Source(
            name,
            topology.readers(name),
            interval=self._size,
            retention=retention_of(topology, name),
            start=records[0].segment.start if records else 0,
            log=[Log(record.segment) for record in records],
        )
        self._moment = self._source.line.end
        """No row is taken in before this, whatever was done to the clock between two lives."""
        self._is_ahead = False
        """Whether people have been told that the stream is ahead of the machine's clock."""
        if self._times is not None and records:
            self._times.clock.closed = records[-1].segment.end
        self._recover()
        if self._times is None:
            # Rows go on where those of an earlier life ended, be it in the future.
            self.clock.not_before(self._moment)
        self._look_at_the_clock()
        self._hear()
        self._loop = Loop(name, self.clock, self._wake, self._next_wake)
        parties = topology.parties()
        address = parties[name].address
        assert address is not None
        self._neighbours = Neighbours(name, {}, None, self.received, heartbeat=1.0)
        self._server = LogServer(
            address, security_of(topology), self, identities=identities_of(topology)
        )
        self._loop.start()

    def _found(self, log: DiskLog) -> list[Record]:
        """The records of a log. One that is damaged in the middle has a gap there, as its readers
        are told. The last record says how far the source has come: without it, rows would be
        brought again under other times."""
        for damage in log.damage:
            if damage.is_last:
                raise StoreCorruptError(
                    f"{damage}; restore the file from a copy, or give up the rows in it with "
                    f"`truncate -s {damage.offset} {damage.path}`: rows that are brought again may "
                    "then be counted twice"
                )
            logger.error(
                "%s: %s; its rows are lost, later ones are kept; restore the file from a copy and "
                "start the source again to have them",
                self.name,
                damage,
            )
            self.damaged_bytes += damage.size
        return log.take(damaged=True)

    def _recover(self) -> None:
        """Take in again what had been taken in and was not logged."""
        arrived = self._found(self._arrived)
        self._compare([record.facts for record in arrived])
        for record in arrived:
            if record.segment.end > self._source.line.end or self._times is not None:
                for row in record.segment.rows:
                    self._keep(row.value.table(), record.segment.start, record.facts["place"])
        if self._times is not None:
            # Those that are in the log already.
            self._times.late = 0

    def _compare(self, arrived: Sequence[Mapping[str, Any]]) -> None:
        """Each log notes how far the other had come: one that is shorter has lost its end, which
        was on disk before anybody was told of it."""
        logged = max((facts.get("logged", 0) for facts in arrived), default=0)
        taken = max((facts.get("taken", 0) for facts in arrived), default=0)
        end = self._source.line.end
        if logged > end:
            self.went_back = True
            logger.error(
                "%s: %s ends %.1f s before what was published from it; what of that is in %s is "
                "published again, the rest is lost, and readers may have rows that are not in the "
                "log; restore the folder from a copy, or see to the disk",
                self.name,
                self._log.folder,
                (logged - end) / 1e6,
                self._arrived.folder,
            )
        if taken < self._taken:
            self.went_back = True
            logger.error(
                "%s: the last %d records of %s are gone: rows that were acknowledged may be lost; "
                "restore the folder from a copy, or see to the disk",
                self.name,
                self._taken - taken,
                self._arrived.folder,
            )
        self._taken = max(taken, self._taken)

    # Taking rows in

    @property
    def in_touch(self) -> bool:
        """Whether rows would come if there were any: only then does silence mean that there are
        none. Set by whatever brings them."""
        return self._in_touch

    @in_touch.setter
    def in_touch(self, is_so: bool) -> None:
        self._hear()
        self._in_touch = is_so

    def _hear(self) -> None:
        """Silence begins anew."""
        if self._times is not None:
            self._times.clock.hear(self.clock.passed())

    def take(self, table: pa.Table, place: Any = None) -> None:
        """Take rows in; when it returns they are on disk. `place`: where to go on from, after
        them. Raises `FullError` if there is no room; try again later."""
        table = self._checked(table)
        self._loop.call(lambda now: self._take(table, place, now))

    def finish(self) -> None:
        """No more rows will come: publish what is held back. Raises `FullError` as `take` does."""
        self._loop.call(self._finish)

    def _checked(self, table: pa.Table) -> pa.Table:
        missing = [name for name in self.brought.names if name not in table.schema.names]
        if missing:
            raise InvalidArgumentError(
                f"{self.name}: the rows have no column {', '.join(missing)}; the stream has "
                f"{', '.join(self.brought.names)}"
            )
        try:
            return table.select(self.brought.names).cast(self.brought)
        except (pa.ArrowException, ValueError) as error:
            raise InvalidArgumentError(
                f"{self.name}: the rows do not fit the stream's schema ({error}); cast them, "
                "or mend the schema in the topology"
            ) from None

    def _finish(self, now: int) -> None:
        self._check_room()
        if self._times is not None:
            self._publish_times(finally_=True)

    def _check_room(self) -> None:
        if self._source.line.is_full:
            raise FullError(
                f"{self.name}: its log is full, for its readers are behind; try again later, or "
                "let retain be longer"
            )

    def _take(self, table: pa.Table, place: Any, now: int) -> None:
        # Rows that have to wait are no silence either.
        self._hear()
        self._check_room()
        if not len(table):
            return
        chunk = Chunk.of(table)
        now = max(now, self._moment)
        end = now + 1
        if self._times is not None:
            end = self._times.newest_of(table) + 1
        facts = {"place": place, "taken": self._taken + 1, "logged": self._source.line.end}
        stored = self._arrived.append(Segment(now, end, (Row(now, None, chunk),)), facts)
        self._taken += 1
        self.rows += len(table)
        self._keep(stored.rows[0].value.table(), now, place, self.clock.passed())
        if self._times is not None:
            self._publish_times()

    def _keep(self, table: pa.Table, now: int, place: Any, passed: int | None = None) -> None:
        if self._times is None:
            self._moment = max(now, self._moment)
            self._do(self._source.record(None, table, now))
        else:
            self._times.take(table, passed)
        if place is not None:
            self.place = place

    def _publish_times(self, *, finally_: bool = False) -> None:
        """Let the stream's own time go on to where no row may come any more."""
        assert self._times is not None
        for bucket, table in self._times.close(finally_=finally_):
            self._do(self._source.record(None, table, bucket * self._size))
        self._do(self._source.wake(self._times.clock.closed))
        self._look_at_the_clock()

    # The loop

    def _next_wake(self) -> float:
        if self._times is None:
            return self._source.next_wake
        # With times of their own, rows make the clock, and silence.
        if self._source.line.is_full:
            return math.inf
        ahead = self.clock.ahead()
        return self._times.clock.next_wake(self.clock() - ahead, self.clock.passed()) + ahead

    def _wake(self, now: int) -> None:
        self._look_at_the_clock()
        if self._times is None:
            self._do(self._source.wake(now))
            return
        if not self._in_touch:
            self._hear()
        # Rows have the times of those who made them, who know nothing of a clock that is slow.
        if self._times.clock.wake(self.clock() - self.clock.ahead(), self.clock.passed()):
            self._publish_times()

    def _look_at_the_clock(self) -> None:
        """Tell people when the stream is ahead of the machine's clock, and when that is over."""
        ahead = self.clock.ahead()
        if self._times is not None:
            ahead = -self.clock.behind(self._times.clock.closed)
        if not self._is_ahead and ahead > self._size:
            self._is_ahead = True
            if self._times is None:
                logger.warning(
                    "%s: this machine's clock is %.1f s behind the times of rows that were "
                    "published already, for it was ahead before; new rows are published at once, "
                    "with times that are ahead, until the clock has caught up in about %.0f s; see "
                    "that NTP runs",
                    self.name,
                    ahead / 1e6,
                    SLOWER * ahead / 1e6,
                )
            else:
                logger.warning(
                    "%s: the newest rows have times that are %.1f s ahead of this machine's clock; "
                    "rows with right ones are late until then; see that the clocks of those who "
                    "make the rows, and this machine's, are right",
                    self.name,
                    ahead / 1e6,
                )
        elif self._is_ahead and ahead <= 0:
            self._is_ahead = False
            logger.info("%s: this machine's clock has caught up", self.name)

    def _do(self, commands: Sequence[Persist]) -> None:
        for command in commands:
            segment = command.entry.segment
            whole = Segment(segment.start, segment.end, self._chunks(segment))
            try:
                # The place may be that of rows after these: they are among the arrived.
                logged = self._log.append(whole, {"place": self.place, "taken": self._taken})
            except StoreUnavailableError as error:
                self._end(error)
                raise
            self._send(self._source.persisted(Log(logged)))
            self._arrived.drop_before(segment.end)
        self._log.drop_before(self._source.line.dropped_before)

    def _end(self, error: StoreUnavailableError) -> None:
        """The source has let go of rows that could not be logged: only a new start, which finds
        them among the arrived, brings them back."""

        def fail(now: int) -> None:
            raise error

        self._loop.post(fail)

    def _chunks(self, segment: Segment) -> tuple[Row, ...]:
        """What was recorded, as one chunk for each bucket."""
        tables: dict[int, list[pa.Table]] = {}
        for row in segment.rows:
            table = row.value if self._times is not None else stamped(row.value, row.stime)
            tables.setdefault(row.stime // self._size, []).append(table)
        rows = []
        for bucket, some in tables.items():
            table = pa.concat_tables(some).cast(self.schema)
            rows.append(Row(max(bucket * self._size, segment.start), None, Chunk.of(table)))
        return tuple(rows)

    def _send(self, sends: Sequence[Send]) -> None:
        for send in sends:
            self._neighbours.send(send.to, send.message)

    def _receive(self, sender: str, message: Message) -> None:
        self._send(self._source.receive(sender, message))
        self._log.drop_before(self._source.line.dropped_before)

    # What whoever runs it sees

    @property
    def failure(self) -> str | None:
        return self._loop.failure

    @property
    def address(self) -> Any:
        return self._server.address

    def close(self) -> None:
        self._server.close()
        self._loop.stop()
        self._log.close()
        self._arrived.close()

    # The server

    def opened(self, party: str, outbox: Outbox) -> None:
        self._loop.post(lambda now: self._neighbours.opened(party, outbox))

    def received(self, party: str, message: Message) -> None:
        self._loop.post(lambda now: self._receive(party, message))

    def closed(self, party: str, outbox: Outbox) -> None:
        def leave(now: int) -> None:
            if self._neighbours.closed(party, outbox):
                self._source.line.leave(party)

        self._loop.post(leave)

    def read(self, ticket: bytes) -> pa.RecordBatchReader:
        asked = LogTicket.read(ticket)
        if asked.stream != self.name:
            raise InvalidArgumentError(f"ticket: {self.name} has no {asked.stream} to read")
        return self._loop.call(lambda now: read_log(self._source.line, asked, self.schema))

    def push(self, stream: str, batch: pa.RecordBatch) -> bytes:
        if stream != self.name:
            raise InvalidArgumentError(f"{self.name}: is not {stream}; push to its own address")
        self.take(pa.table(batch))
        return b"logged"

    def act(self, name: str, body: bytes) -> bytes:
        return answer_action(name, {"status": self.status})

    def streams(self) -> Mapping[str, pa.Schema]:
        return {self.name: self.brought}

    def status(self) -> dict[str, Any]:
        line = self._source.line
        return {
            "party": self.name,
            "kind": "source",
            "ready": True,
            "state": "STABLE",
            "stable_rows": self.rows,
            "start": line.dropped_before,
            "boundary": line.end,
            "newest": line.end,
            "lag_seconds": self.clock.behind(line.end) / 1e6,
            "clock_ahead_seconds": self.clock.ahead() / 1e6,
            "late_rows": 0 if self._times is None else self._times.late,
            "idle": self._times is not None and self._times.clock.is_idle(self.clock.passed()),
            "log_bytes": self._log.size,
            "damaged_bytes": self.damaged_bytes,
            "went_back": self.went_back,
            "full": line.is_full,
            "callers": self._server.parties,
            "refused": self._server.refused,
        }
