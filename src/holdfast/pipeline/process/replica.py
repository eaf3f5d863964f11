"""One replica of a stage: its state machine between links, query and disk.

The loop's thread runs the protocol. What it decides goes into the journal of the query; what the
query makes of that goes into the log and then, as the protocol says, to the readers. A replica that
is started again lets the query finish what is in the journal and goes on from there; one without a
disk has lost its state and gets it from a peer, or from its inputs.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError, StoreCorruptError
from holdfast.pipeline.machine.commands import (
    Command,
    CopyState,
    Drop,
    DropCopy,
    Fork,
    Install,
    Rerun,
    Restart,
    SendPiece,
    StartOver,
    TakeCopy,
    TakePiece,
    Work,
)
from holdfast.pipeline.machine.messages import (
    Feed,
    LogPiece,
    Message,
    Send,
    StateOffer,
    StatePiece,
    StateRequest,
)
from holdfast.pipeline.machine.node import Node
from holdfast.pipeline.machine.output_log import Line
from holdfast.pipeline.machine.subscription import Intake
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.pipeline.process.copies import Copies, DiskShelf, Taking
from holdfast.pipeline.process.fault_tracker import Verdicts
from holdfast.pipeline.process.output_log import History
from holdfast.pipeline.process.reader import Fitting
from holdfast.pipeline.process.replica_config import comparison_of, is_voted_on, place_of
from holdfast.pipeline.process.replica_host import Workplace
from holdfast.pipeline.stages.entries import Entry, Order, Piece, work_on
from holdfast.pipeline.stages.query import Result
from holdfast.pipeline.topology import Topology
from holdfast.spark.partials import shard_labels

# What a replica can calculate again, for readers that could not agree on a bucket.
#
# What a stage answers for a bucket depends on the rows of that bucket and of those before it that
# its windows and joins reach back to. They are kept for the newest buckets, and given to the query
# anew, which begins with an empty state.

REMEMBERED: Final = 64
"""Buckets that can be calculated again: as many as a gate votes on at once."""
FARTHEST: Final = 512
"""Buckets that windows and joins may reach back; beyond that nothing is kept."""
LARGEST: Final = 2**28
"""Bytes that are kept at most."""


class Reruns:
    """Rows of the newest buckets, and who has asked for them."""

    def __init__(self, size: int, span: int) -> None:
        """`size`: of a bucket. `span`: how far back the state of the stage depends on its input."""
        self._size = size
        self._before = math.ceil(span / size)
        self._pieces: OrderedDict[int, list[Piece]] = OrderedDict()
        self._bytes = 0
        self._since: int | None = None
        """From this boundary on all rows are here, and the state was empty or they do not matter.
        None before there are any."""
        self._end = 0
        self._asked: dict[int, Rerun] = {}

    def note(self, entry: Entry) -> None:
        """This has been given to the base."""
        if self._before > FARTHEST:
            return
        self._since = entry.start if self._since is None else self._since
        self._end = entry.end
        for piece in entry.pieces:
            self._pieces.setdefault(piece.bucket, []).append(piece)
            self._bytes += piece.chunk.size
        while len(self._pieces) > REMEMBERED + self._before or self._bytes > LARGEST:
            bucket, gone = self._pieces.popitem(last=False)
            self._bytes -= sum(piece.chunk.size for piece in gone)
            self._since = (bucket + 1) * self._size

    def entry(self, rerun: Rerun) -> Entry | None:
        """What the query has to do, None if not all rows are here."""
        start = rerun.asked.start
        first = max(0, start - self._before * self._size)
        if self._since is None or first < self._since or start >= self._end:
            return None
        buckets = range(first // self._size, start // self._size + 1)
        pieces = [piece for each in buckets for piece in self._pieces.get(each, ())]
        return Entry(0, Order.RERUN, first, start + self._size, pieces=tuple(pieces))

    def ask(self, entry: int, rerun: Rerun) -> None:
        self._asked[entry] = rerun

    def is_asked(self, rerun: Rerun) -> bool:
        """Whether the query has been given it and has not answered, or has enough to do."""
        return len(self._asked) >= REMEMBERED or rerun in self._asked.values()

    def answered(self, entry: int) -> Rerun | None:
        return self._asked.pop(entry, None)

    def forget(self) -> None:
        """The state of the stage is another one now."""
        self._pieces.clear()
        self._asked.clear()
        self._bytes = 0
        self._since = None


logger = logging.getLogger(__name__)


class Replica:
    """Runs until it is closed or `failure` says why it cannot go on."""

    def __init__(
        self,
        topology: Topology,
        name: str,
        spark: SparkSession,
        *,
        routes: Mapping[str, str] | None = None,
        spark_ui: str | None = None,
    ) -> None:
        """`routes`: addresses of parties that are reached elsewhere than the topology says.
        `spark_ui`: where Spark serves its own page, if it does."""
        workplace = self._workplace = Workplace(
            topology, name, spark, routes=routes, spark_ui=spark_ui
        )
        self.name, self.stream, self.schema = name, workplace.stream, workplace.schema
        self.place = place_of(topology, name)
        self.settings = workplace.settings
        self.counts = workplace.counts
        self._history = self._open_history()
        self._shelf = DiskShelf(workplace.folder / "waiting")
        self._applied: int | None = None
        """The last entry in the base of the query when it was at the end of its journal."""
        self._has_hole = False
        """Whether the log lacks what came before something that the query has done once more."""
        self._node: Node | None = None
        self._works: dict[int, Work] = {}
        """What the query has been asked to do and has not done, by entry."""
        self._copies = Copies(workplace.folder / "copies")
        self._copying: dict[int, int] = {}
        """Copies that the query has been asked for, by entry."""
        self._taking = Taking(workplace.folder / "taken", shard_labels(workplace.stage.shards))
        self._installing: int | None = None
        """The entry that installs a copy, whose files are needed until it is done for good."""
        self._copy_status: dict[str, Any] = {}
        comparison = comparison_of(workplace.stage)
        self._verdicts: Verdicts | None = None
        if comparison is not None:
            # A stream from outside has one source, and nothing to be compared with.
            compared = {s: names for s, names in self.place.inputs.items() if s in topology.stages}
            note = workplace.folder / "quarantine.json"
            self._verdicts = Verdicts(name, comparison, compared, note)
        self._fitting: Fitting | None = None
        """None if no single replica can let anything through that is not compared, or none lies."""
        if workplace.stage.policy == "sample":
            self._fitting = Fitting(workplace.input_schemas, self.settings.size)
        self._reruns: Reruns | None = None
        """None if nobody will ask to calculate anything again."""
        if is_voted_on(topology, self.stream):
            self._reruns = Reruns(self.settings.size, int(workplace.stage.span))
        above = (party for parties in self.place.inputs.values() for party in parties)
        workplace.open(self, [*above, *self.place.peers])

    def _open_history(self) -> History:
        folder = self._workplace.folder / "log"
        try:
            history = History(folder)
        except StoreCorruptError as error:
            self._workplace.set_aside(str(error))
            return History(folder)
        for damage in history.damage:
            logger.error(
                "%s: %s; what was published later is kept, and a peer is asked for the rest",
                self.name,
                damage,
            )
            self._workplace.was_damaged = True
        return history

    # What whoever runs it sees

    @property
    def failure(self) -> str | None:
        """Why it cannot go on, if it cannot."""
        return self._workplace.failure

    @property
    def address(self) -> Any:
        return self._workplace.server.address

    def close(self) -> None:
        self._workplace.close()
        self._history.close()

    # The loop

    @property
    def next_wake(self) -> float:
        return float("inf") if self._node is None else self._node.next_wake

    def wake(self, now: int) -> None:
        if self._node is not None:
            self._do(self._node.wake(now), now)

    def receive(self, sender: str, message: Message, now: int) -> None:
        if self._node is not None:
            if self._fitting is not None and isinstance(message, Feed):
                message = self._fitted(self._fitting, sender, message)
            checked = self._checked(sender, message)
            if checked is not None:
                self._do(self._node.receive(sender, checked, now), now)
        elif (
            isinstance(message, StateRequest)
            and self._history.has_state
            and sender in self.place.peers
        ):
            # A copy can be made once Spark has finished the journal: the time counts as progress.
            self._workplace.neighbours.send(sender, StateOffer(1, size=now))

    def _checked(self, sender: str, message: Message) -> Message | None:
        """What the node is to know of a message that concerns a copy; None if nothing."""
        node = self._node
        assert node is not None
        match message:
            case StateRequest() if node.lending.copying:
                node.lending.made = self._copies.made(node.lending.copying)
            case StateOffer() if node.recovery.asks and sender in self.place.peers:
                try:
                    self._taking.check(message)
                except HoldfastError as error:
                    self._refuse(sender, error)
                    return None
            case StatePiece() if not self._taking.is_right(message):
                self._refuse(sender, f"piece {message.number} of a state, which is damaged")
                return None
            case LogPiece() if node.expects(sender, message):
                return replace(message, segments=self._history.add_older(message.segments))
        return message

    def _refuse(self, sender: str, why: object) -> None:
        link = self._workplace.neighbours.links.get(sender)
        if link is not None:
            link.refuse(why)

    def _fitted(self, fitting: Fitting, sender: str, feed: Feed) -> Feed:
        fitted = fitting.of(feed)
        if fitted is not feed:
            self._refuse(
                sender,
                f"rows of {feed.stream} that do not have its columns, or not the times of their "
                "bucket",
            )
        return fitted

    def _do(self, commands: list[Command], now: int) -> None:
        node = self._node
        for command in commands:
            if isinstance(command, StartOver):
                self._start_over(now)
                return
            self._carry_out(command)
        if node is not None and self._node is node:
            self._history.drop_before(node.lines[self.stream].dropped_before)
            if node.is_stranded and not self.counts.is_stranded:
                logger.error(
                    "%s: has lost its state, no peer has it, and its inputs are not kept from the "
                    "start; start a replica of %s that still has its folder, or the whole pipeline "
                    "anew",
                    self.name,
                    self.stream,
                )
            self.counts.look([node])
            self._copy_status = self._look_at_copies(node, now)
            self._sweep()
            if not self._history.is_whole and node.backfill is not None and node.backfill.is_done:
                self._history.end_older(node.lines[self.stream].dropped_before)
            if self._verdicts is not None:
                self._verdicts.look()

    def _look_at_copies(self, node: Node, now: int) -> dict[str, Any]:
        """The copy that is being taken, or was last: what has come of it, and in which time."""
        transfer = node.recovery.transfer
        if transfer is None:
            said = self._copy_status
            return {**said, "copy_bytes": self._taking.taken} if said else {}
        return {
            "copy_from": transfer.peer,
            "copy_bytes": self._taking.taken,
            "copy_size": transfer.offer.size,
            "copy_seconds": (now - transfer.began) / 1e6,
        }

    def _carry_out(self, command: Command) -> None:
        match command:
            case Send(to, message):
                self._workplace.neighbours.send(to, message)
            case Work():
                self._work(command)
            case Fork():
                self._workplace.submit(Entry(0, Order.FORK))
            case Drop():
                self._workplace.submit(Entry(0, Order.DROP))
            case Restart(bucket):
                self._forget_reruns()
                self._workplace.submit(Entry(0, Order.RESTART, end=bucket * self.settings.size))
            case Install(bucket, copy):
                self._install(bucket, copy)
            case CopyState(copy):
                logger.info("%s: makes a copy of its state for a peer", self.name)
                folder = str(self._copies.folder(copy)).encode()
                self._copying[self._workplace.submit(Entry(0, Order.COPY, state=folder))] = copy
            case SendPiece(to, copy, number):
                self._send_piece(to, copy, number)
            case DropCopy(copy):
                self._copies.drop(copy)
            case TakeCopy(offer):
                logger.info("%s: takes over a state of %d bytes", self.name, offer.size)
                self._taking.begin(offer)
                # One without pieces is over before anybody looks.
                self._copy_status = {"copy_bytes": 0, "copy_size": offer.size, "copy_seconds": 0.0}
            case TakePiece(piece):
                self._taking.take(piece)
            case Rerun():
                self._rerun(command)

    def _work(self, work: Work) -> None:
        size = self.settings.size
        entry = work_on(work.stretch, self._workplace.inputs, size, tentative=work.tentative)
        if self._reruns is not None and not work.tentative:
            self._reruns.note(entry)
        self._works[self._workplace.submit(entry)] = work

    def _rerun(self, rerun: Rerun) -> None:
        """Calculate a bucket again, or say again what was published of it."""
        node = self._node
        assert node is not None
        # Others than the readers of the topology make no work.
        reruns = self._reruns if rerun.reader in self.place.readers[self.stream] else None
        if reruns is not None and reruns.is_asked(rerun):
            return
        entry = None if reruns is None else reruns.entry(rerun)
        if reruns is not None and entry is not None:
            reruns.ask(self._workplace.submit(entry), rerun)
            return
        start = rerun.asked.start
        published = node.lines[self.stream]
        if not published.dropped_before <= start < published.end:
            return
        rows = [row for segment in published.segments.since(start) for row in segment.rows]
        for command in node.rerun(rerun, rows):
            self._carry_out(command)

    # Results

    def take_result(self, result: Result, now: int) -> None:
        match result.order:
            case Order.WORK:
                self._finish(result, now)
            case Order.RESTART if result.entry > self._history.done:
                self._has_hole = False
                self._note_restart(result.entry)
            case Order.INSTALL if result.entry == self._history.done:
                self._history.base = self._workplace.journal.read(result.entry).end
            case Order.COPY:
                self._finish_copy(result, now)
            case Order.DROP:
                self._applied = result.applied
            case Order.RERUN if self._reruns is not None and self._node is not None:
                rerun = self._reruns.answered(result.entry)
                if rerun is not None:
                    self._do(self._node.rerun(rerun, self._rows_in(result)), now)

    def _finish(self, result: Result, now: int) -> None:
        entry = self._workplace.journal.read(result.entry)
        rows = self._rows_in(result)
        work = self._works.pop(result.entry, None)
        if entry.tentative:
            self.counts.tentative += sum(row.value.rows for row in rows)
        elif result.entry > self._history.done:
            if self._node is None and entry.start != self._history.base:
                self._has_hole = True
            segment = self._history.add(
                Segment(entry.start, entry.end, rows), result.entry, self._consistent_from
            )
            rows = segment.rows
            self.counts.stable += sum(row.value.rows for row in rows)
            if self._node is None:
                self._history.recall(segment)
        if work is None or self._node is None:
            return
        self._do(self._node.finished(work, {self.stream: rows}, now), now)
        if self._node is not None and not entry.tentative:
            self._do(self._node.saved(work.stretch.stop, now), now)

    def _rows_in(self, result: Result) -> tuple[Row, ...]:
        size = self.settings.size
        return tuple(Row(bucket * size, None, chunk) for bucket, chunk in result.chunks)

    def _note_restart(self, entry: int) -> None:
        """The base is empty now, and goes on from where the entry says."""
        boundary = self._workplace.journal.read(entry).end
        if not boundary:
            self._history.forget()
            return
        consistent_from = self._consistent_from
        if self._node is None:
            # The life before has ended before it could say so.
            consistent_from = self.place.consistent_from(boundary, self.settings.size)
        self._history.restart(boundary, entry, consistent_from)

    @property
    def _consistent_from(self) -> int:
        return (self._history if self._node is None else self._node).consistent_from

    # Beginning, again

    def begin(self, now: int) -> None:
        history, size = self._history, self.settings.size
        defect = self._defect() if history.has_state else None
        if defect is not None:
            logger.error(
                "%s: %s; it starts over, and gets its state from a peer or its inputs",
                self.name,
                defect,
            )
            history.forget()
            self._workplace.was_damaged = True
        entries = self._workplace.journal.since(0)
        installs = [each.number for each in entries if each.order is Order.INSTALL]
        self._installing = max(installs, default=0)
        self._sweep()
        self._node = self._make_node(now, lost=not history.has_state)
        copy = self._copies.resume()
        if copy is not None and history.has_state:
            self._node.lending.resume(copy, now)
        elif copy is not None:
            self._copies.drop(copy.copy)
        if history.has_state:
            lines = {self.stream: history.take_published(size)}
            self._node.resume(history.base // size, history.consistent_from, lines, now)
            if not history.is_whole and self.place.peers:
                self._node.fetch_older()
        else:
            self._workplace.submit(Entry(0, Order.RESTART))
        self._do(self._node.wake(now), now)

    def _defect(self) -> str | None:
        """Why the log is not that of the state, if it is not."""
        if self._has_hole:
            return "its log lacks entries that Spark has done and will not do again"
        if self._applied not in (None, self._history.done):
            return (
                f"its log ends with entry {self._history.done} of its journal and its state with "
                f"entry {self._applied}"
            )
        return None

    def _make_node(self, now: int, *, lost: bool) -> Node:
        intakes: Mapping[str, Intake] = {}
        if self._verdicts is not None:
            settings = self.settings
            grace = settings.heartbeat * (settings.missed + 2)
            intakes = self._verdicts.intakes(size=settings.size, grace=grace)
        self._shelf.clear()
        return Node(self.place, self.settings, now, lost=lost, intakes=intakes, shelf=self._shelf)

    def _start_over(self, now: int) -> None:
        """What comes next is kept nowhere any more: begin as one that has lost its state."""
        logger.warning("%s: starts over, for its inputs have gone on without it", self.name)
        self._works.clear()
        node = self._node
        if node is not None and node.lending.offer is not None:
            self._copies.drop(node.lending.offer.copy)
        self._history.forget()
        self._workplace.submit(Entry(0, Order.DROP))
        self._workplace.submit(Entry(0, Order.RESTART))
        self._forget_reruns()
        self._node = self._make_node(now, lost=True)

    def _forget_reruns(self) -> None:
        if self._reruns is not None:
            self._reruns.forget()

    def _install(self, bucket: int, copy: int) -> None:
        """Take over the state of a peer; its log follows."""
        node = self._node
        assert node is not None
        boundary = bucket * self.settings.size
        folder = str(self._taking.installed(copy)).encode()
        entry = self._workplace.submit(Entry(0, Order.INSTALL, end=boundary, state=folder))
        self._installing = entry
        self._history.replace(boundary, entry, node.consistent_from)
        logger.info("%s: has all of the state of a peer, and installs it", self.name)

    def _sweep(self) -> None:
        """Delete the files of a copy once it has been installed for good."""
        if self._installing is None or self._workplace.journal.has(self._installing):
            return
        self._installing = None
        self._taking.sweep()

    def _finish_copy(self, result: Result, now: int) -> None:
        """The copy is of the base as it stands after all that was asked for before."""
        copy = self._copying.pop(result.entry, None)
        if copy is None:
            return
        node, offer, has_room = self._node, None, bool(result.state)
        base = self._history.base
        is_base = node is not None and node.gate.base * self.settings.size == base
        if has_room and node is not None and is_base and not node.is_lost:
            bucket = base // self.settings.size
            try:
                offer = self._copies.finish(copy, result.state, bucket, node.consistent_from)
            except OSError:
                has_room = False
        if not has_room:
            logger.error(
                "%s: has no room for a copy of its state in %s, for which a peer waits; make room",
                self.name,
                self._copies.folder(copy),
            )
        if offer is None:
            self._copies.drop(copy)
        if node is None:
            return
        if has_room or node.lending.copying != copy:
            self._do(node.copied(copy, offer, now), now)
        else:
            self._do(node.lending.fail(now), now)

    def _send_piece(self, to: str, copy: int, number: int) -> None:
        node = self._node
        assert node is not None
        piece = self._copies.piece(copy, number)
        if piece is not None:
            self._workplace.neighbours.send(to, piece)
        elif node.lending.lose(copy):
            self._copies.drop(copy)

    # What its service asks

    def left(self, party: str) -> None:
        if self._node is not None:
            self._node.left(party)

    def line(self, stream: str) -> Line | None:
        node = self._node
        if node is None or node.is_lost or stream != self.stream:
            return None
        return node.lines[stream]

    def answers(self, body: str) -> Mapping[str, Callable[[], Any]]:
        return {
            "status": self.status,
            "readmit": lambda: self._workplace.loop.call(lambda now: self._readmit(body, now)),
        }

    def _readmit(self, party: str, now: int) -> bool:
        """Whether it was in quarantine."""
        node, verdicts = self._node, self._verdicts
        if verdicts is None or node is None or party not in verdicts.status["quarantined"]:
            return False
        logger.warning("%s: %s counts again, as we were told", self.name, party)
        self._do(node.readmit(party, now), now)
        verdicts.readmitted(party)
        return True

    def status(self) -> dict[str, Any]:
        return self._workplace.status(self._own_status)

    def _own_status(self) -> dict[str, Any]:
        verdicts = {} if self._verdicts is None else self._verdicts.status
        return {**verdicts, **self._copy_status, "log_bytes": self._history.size}
