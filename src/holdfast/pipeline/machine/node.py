"""One replica of a stage: gate at its inputs, logs at its outputs.

A node processes complete buckets with its base and publishes what comes out as stable. When the
gate's clock runs out it forks the base and shows previews. Once the missing input is there, the
base processes the same buckets; when it has reached the fork, the fork is dropped. So the base
never goes back, a checkpoint is a fork, and reconciliation is the base catching up.

Events go in (`receive`, `wake`, `finished`, `saved`, `restarted`), commands come out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.gates.order import Order
from holdfast.pipeline.gates.waiting import Shelf
from holdfast.pipeline.machine.commands import (
    Command,
    Drop,
    Fork,
    Install,
    Place,
    Rerun,
    Restart,
    Settings,
    StartOver,
    Work,
)
from holdfast.pipeline.machine.inputs import Inputs
from holdfast.pipeline.machine.messages import (
    Again,
    AuthGrant,
    AuthReject,
    AuthRelease,
    AuthRequest,
    Feed,
    Heartbeat,
    Item,
    LogPiece,
    LogRequest,
    Message,
    PieceRequest,
    Preview,
    Read,
    Recalculate,
    Send,
    Stable,
    StateOffer,
    StatePiece,
    StateRequest,
    Subscribe,
    Unsubscribe,
    Vitals,
)
from holdfast.pipeline.machine.monitor import Monitor, demote
from holdfast.pipeline.machine.output_log import Line
from holdfast.pipeline.machine.reconcile_lease import Stagger
from holdfast.pipeline.machine.recovery import Backfill, Lending, Recovery
from holdfast.pipeline.machine.states import State, output_state
from holdfast.pipeline.machine.subscription import Intake, SwitchIntake
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.pipeline.machine.vote_subscription import VoteIntake


class Node:
    """A replica's part in the protocol."""

    def __init__(
        self,
        place: Place,
        settings: Settings,
        now: int,
        *,
        lost: bool = False,
        intakes: Mapping[str, Intake] | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        """`lost`: it was here before and has lost its state: it is silent until it has one again.
        `intakes`: how to read input streams that are not to be switched between replicas.
        `shelf`: for what waits at the gate of a stage that makes previews: those need the newest
        rows, so reading does not wait."""
        if settings.may_skip and place.span == math.inf:
            raise InvalidArgumentError(
                f"{place.name}: may_skip for a stage that does not converge; it could never find "
                "its state again, so let it make its sources wait"
            )
        if settings.may_skip and settings.retain <= settings.delays.max_delay + place.span:
            raise InvalidArgumentError(
                f"{place.name}: retain is {settings.retain}; keep more than max_delay "
                f"({settings.delays.max_delay}) and the windows of the stage ({place.span}), or "
                "rows are given up before they are missed"
            )
        self.place = place
        self.settings = settings
        first = place.start // settings.size
        self._has_shelf = shelf is not None and not settings.delays.are_infinite
        self.gate = Order(
            tuple(place.inputs),
            settings.size,
            settings.delays,
            now,
            first=first,
            room=settings.room,
            shelf=shelf if self._has_shelf else None,
        )
        grace = settings.heartbeat * (settings.missed + 2)
        switched: dict[str, Intake] = {
            stream: SwitchIntake(stream, replicas, grace=grace, position=place.start)
            for stream, replicas in place.inputs.items()
        }
        self.inputs = Inputs(
            switched | dict(intakes or {}),
            Monitor(place.inputs, period=settings.heartbeat, missed=settings.missed),
        )
        self.lines = {
            name: Line(
                name,
                place.readers[name],
                start=place.start,
                retention=place.retentions.get(name),
            )
            for name in place.outputs
        }
        self.stagger = Stagger(
            place.name, place.peers, retry=settings.retry, lease=4 * settings.retry
        )
        self.consistent_from = place.start
        """What is published begins here."""
        self.working: Work | None = None
        self.recovery = Recovery(
            place.peers, lost=lost, copies=settings.copy_state, retry=settings.retry, now=now
        )
        self.lending = Lending(settings.retry)
        self.backfill: Backfill | None = None
        """None unless older pieces of its lines are fetched from a peer."""
        self._failing_since: int | None = None
        self._corrected_at: float = -math.inf
        self._reconciling = False
        self._fork_worked = False
        """Whether the fork was the last to work."""
        self._now = now

    # What others see

    @property
    def is_lost(self) -> bool:
        """Whether it is silent, for it has no state that is right."""
        return self.recovery.is_lost

    @property
    def is_stranded(self) -> bool:
        """Whether it is lost and cannot get out of it by itself: no peer has its state, and its
        inputs are not kept from the beginning. Tell somebody."""
        return self.recovery.is_stranded

    @property
    def state(self) -> State:
        """The state of the node as a whole."""
        if self.is_lost:
            return State.FAILURE
        is_held_up = self._waits_its_turn or self._is_full
        if self.gate.backlog > self.settings.lag and not is_held_up:
            return State.STABILIZATION
        if self._failing_since is None:
            return State.STABLE
        return State.STABILIZATION if self._shows_corrections else State.UP_FAILURE

    @property
    def _shows_corrections(self) -> bool:
        """Whether it corrects: of those who take turns only the one whose turn it is does."""
        return self._is_correcting if self.settings.beside else self._reconciling

    @property
    def is_reconciling(self) -> bool:
        """Whether it corrects and leaves what is new to its peers meanwhile."""
        return self._reconciling

    @property
    def is_tentative(self) -> bool:
        """Whether previews are out that are not corrected."""
        return self.gate.fork is not None or not all(
            line.is_corrected for line in self.lines.values()
        )

    @property
    def _is_correcting(self) -> bool:
        recently = self._now < self._corrected_at + 2 * self.settings.missed * self._beat
        return self._reconciling or self.gate.backlog > 0 or recently

    @property
    def _beat(self) -> int:
        return self.settings.heartbeat

    def stream_state(self, stream: str) -> State:
        """How good one output stream is, or is about to become."""
        best = self.inputs.best()
        if self.settings.beside:
            # Those who correct go on showing previews.
            best = {
                name: State.UP_FAILURE if state is State.STABILIZATION else state
                for name, state in best.items()
            }
        correcting = self._failing_since is not None and self._shows_corrections
        state = output_state(self.place.outputs[stream], best, correcting)
        return max(state, self.state)

    @property
    def _preview_due(self) -> float:
        return self.gate.due(
            self._is_correcting, hopeful=self.settings.beside, failing=self.inputs.are_failing
        )

    @property
    def next_wake(self) -> float:
        """When to call `wake` next, at the latest."""
        wakes: list[float] = [self.inputs.monitor.next_wake, self.recovery.next_wake]
        if self.backfill is not None:
            wakes.append(self.backfill.next_wake)
        if self.working is None and not (self.is_lost or self._reconciling):
            wakes.append(self._preview_due)
        if self._must_redo and not self.settings.beside:
            wakes.append(self.stagger.next_wake)
        return min(wakes)

    # Events

    def receive(self, sender: str, message: Message, now: int) -> list[Command]:
        self._look_at_the_clock(now)
        commands: list[Command] = []
        match message:
            case Feed():
                commands += self._take_feed(sender, message, now)
            case Vitals():
                commands += self._take_vitals(sender, message, now)
                if not (commands or self.is_lost):
                    return []
            case StateOffer():
                commands += self._take_offer(sender, message, now)
            case StatePiece():
                commands += self.recovery.piece(sender, message, now)
                if not self.recovery.has_all:
                    return commands
                commands += self._install(now)
            case StateRequest() if self.is_lost and sender in self.place.peers:
                return [Send(sender, StateOffer(0))]
            case _ if self.is_lost:
                return []
            case Subscribe():
                line = self.lines.get(message.stream)
                commands += line.subscribe(sender, message) if line else []
            case Unsubscribe():
                line = self.lines.get(message.stream)
                if line is not None:
                    line.unsubscribe(sender, message)
            case Read():
                was_full = self._is_full
                line = self.lines.get(message.stream)
                commands += line.read(sender, message) if line else []
                if not was_full:
                    return commands
            case Recalculate() if message.stream in self.lines:
                commands.append(Rerun(sender, message))
            case Heartbeat():
                was_full = self._is_full
                commands.append(self._answer(sender, message))
                commands += self._feed_on(sender, message)
                if not was_full:
                    return commands
            case StateRequest() if sender in self.place.peers:
                return self.lending.asked(sender, message, self.gate.size, now)
            case PieceRequest() if sender in self.place.peers:
                return self.lending.pieces(sender, message, now)
            case LogRequest() if sender in self.place.peers and message.stream in self.lines:
                return [Send(sender, self.lines[message.stream].older(message.before))]
            case LogPiece() if self.expects(sender, message):
                assert self.backfill is not None
                return self.backfill.take(message, self.lines, now)
            case AuthRequest() | AuthGrant() | AuthReject() | AuthRelease():
                commands += self.stagger.take(
                    sender,
                    message,
                    now,
                    needs=self._must_redo,
                    reconciling=self._reconciling,
                )
        return commands + self._go_on(now)

    def wake(self, now: int) -> list[Command]:
        self._look_at_the_clock(now)
        commands: list[Command] = []
        if self.recovery.is_due(now):
            commands += self._look_for_a_state(now)
        commands += self.lending.wake(now)
        commands += self._ask_older(now)
        safe = None if self.is_lost else self.gate.kept * self.gate.size
        beats = self.inputs.wake(now, safe)
        if beats:
            commands += beats
            commands += self._read_on(now)
        return commands + self._go_on(now)

    def _look_at_the_clock(self, now: int) -> None:
        """If we were not running, what seems missing may be waiting at our door, and what we know
        of others is old."""
        if now - self._now > (self.settings.missed + 1) * self._beat:
            self.gate.excuse(now)
            self.inputs.monitor.forget()
        self._now = now

    def finished(self, work: Work, outputs: Mapping[str, Sequence[Row]], now: int) -> list[Command]:
        """The work is done; `outputs` are the rows of each output stream."""
        if work is not self.working:
            return []
        self._look_at_the_clock(now)
        self.working = None
        stretch = work.stretch
        commands: list[Command] = []
        if work.tentative:
            self.gate.fork_done(stretch)
        else:
            self.gate.base_done(stretch)
            if self.is_tentative:
                self._corrected_at = now
        for name, line in self.lines.items():
            segment = Segment(stretch.start, stretch.end, tuple(outputs[name]))
            if not work.tentative:
                for piece in self._publishable(segment):
                    commands += line.publish(piece)
            elif self.stream_state(name) is not State.FAILURE:
                commands += line.preview(segment)
        return commands + self._go_on(now)

    def _publishable(self, segment: Segment) -> list[Segment]:
        """What of it is right, bucket by bucket, for that is how readers compare replicas."""
        if segment.end <= self.consistent_from:
            return []
        return segment.after(self.consistent_from).by_bucket(self.gate.size)

    def rerun(self, rerun: Rerun, rows: Sequence[Row]) -> list[Command]:
        """A bucket has been calculated again: its rows are among these."""
        start, end = rerun.asked.start, rerun.asked.start + self.gate.size
        segment = Segment(start, end, tuple(row for row in rows if start <= row.stime < end))
        again = Again(segment, rerun.asked.attempt)
        return [*self.lines[rerun.asked.stream].repeat(rerun.reader, again)]

    def readmit(self, replica: str, now: int) -> list[Command]:
        """Let the votes of a replica count again that was found lying."""
        commands: list[Command] = []
        for stream, intake in self.inputs.intakes.items():
            if isinstance(intake, VoteIntake):
                news, sends = intake.readmit(replica)
                commands += sends
                for item in news:
                    self._take_item(stream, item, now)
        return commands + self._go_on(now)

    def saved(self, bucket: int, now: int) -> list[Command]:
        """The state of the base before this bucket is safe."""
        self.gate.forget(bucket)
        return self._go_on(now)

    def restarted(self, bucket: int, now: int) -> list[Command]:
        """The stage has lost what it did since its state was safe, before this bucket."""
        self.working = None
        self.gate.rewind(bucket)
        return self._go_on(now)

    # Input

    def _take_feed(self, sender: str, feed: Feed, now: int) -> list[Command]:
        news, sends, turns = self.inputs.take_feed(sender, feed, now)
        for item in news:
            self._take_item(feed.stream, item, now)
        return [*sends, *(self._read_on(now) if turns else [])]

    def _take_item(self, stream: str, item: Item, now: int) -> None:
        if isinstance(item, Stable):
            self.gate.take(stream, item.segment, now)
        elif isinstance(item, Preview):
            self.gate.preview(stream, item.segment, now)

    def _take_vitals(self, sender: str, vitals: Vitals, now: int) -> list[Command]:
        sends, turns = self.inputs.take_vitals(sender, vitals, now)
        return [*sends, *(self._read_on(now) if turns else [])]

    def _read_on(self, now: int) -> list[Command]:
        if self.recovery.asks:
            return []
        commands: list[Command] = []
        is_stranded = False
        failing_for = 0 if self._failing_since is None else now - self._failing_since
        for stream, intake in self.inputs.intakes.items():
            states = self.inputs.states(stream)
            gap = intake.gap(states, hasty=self._may_skip)
            if gap is not None and self._may_skip:
                commands += self._jump(-(-gap // self.gate.size), now)
            elif gap is not None and (not self.is_lost or self._has_begun):
                # What comes next is kept nowhere any more, but a peer may have gone past it.
                return [*commands, StartOver()]
            elif gap is not None:
                is_stranded = True
            seen = demote(states, failing_for, self.settings.long_failure, intake.caught_up)
            commands += intake.read_on(seen, self.inputs.monitor.ends(stream), now)
        self.recovery.is_stranded = is_stranded
        return commands

    # Work

    def _go_on(self, now: int) -> list[Command]:
        """Whatever there is to do next."""
        commands = self._make_room(now)
        gate = self.gate
        if self.is_lost:
            self._return_when_consistent()
        if self._has_caught_up:
            gate.join()
            commands.append(Drop())
            if self.working is not None and self.working.tentative:
                self.working = None
        caught_up = not self.is_tentative and gate.backlog <= self.settings.lag
        if self._failing_since is not None and caught_up:
            self._failing_since = None
        if (self._reconciling or self.stagger.granted) and not (self._must_redo or self.working):
            self._reconciling = False
            commands += self.stagger.finish(now)
        commands += self._ask_to_redo(now)
        if self.working is None:
            commands += self._choose_work(now)
        return commands

    @property
    def _has_caught_up(self) -> bool:
        """Whether the base has done all that the fork has."""
        base, fork = self.gate.base, self.gate.fork
        if fork is None or base != fork:
            return fork is not None and base > fork
        return self.working is None or not self.working.tentative

    @property
    def _must_redo(self) -> bool:
        if self.gate.fork is not None:
            return self.gate.backlog > 0
        return self._reconciling and self.gate.backlog > self.settings.lag

    @property
    def _waits_its_turn(self) -> bool:
        return self._must_redo and not (self.settings.beside or self._reconciling)

    def _choose_work(self, now: int) -> list[Command]:
        gate = self.gate
        is_due = not self.is_lost and now >= self._preview_due
        # They take turns, so that a fork that is always behind does not keep the base waiting.
        base_waits = gate.backlog > 0 and self.settings.beside and not self._is_full
        fork_turn = not (base_waits and self._fork_worked)
        if gate.fork is not None and is_due and not self._reconciling and fork_turn:
            return [self._work(tentative=True)]
        if gate.backlog and not self._is_full:
            if gate.fork is None or self.settings.beside or self._reconciling:
                return [self._work(tentative=False)]
            return []
        if gate.fork is None and is_due:
            if self._failing_since is None:
                self._failing_since = now
                self.inputs.doubt()
            return [Fork(), self._work(tentative=True)]
        return []

    def _work(self, *, tentative: bool) -> Work:
        if tentative:
            stretch = self.gate.next_preview(
                self._now,
                self._is_correcting,
                hopeful=self.settings.beside,
                failing=self.inputs.are_failing,
                most=self.settings.most,
            )
        else:
            complete = self.gate.next_stable(self.settings.most)
            assert complete is not None
            stretch = complete
        self._fork_worked = tentative
        self.working = Work(stretch, tentative)
        return self.working

    def _ask_to_redo(self, now: int) -> list[Command]:
        """Where corrections are not made beside the fork, replicas take turns: ask a peer."""
        if self.settings.beside or not self._must_redo:
            return []
        sends: list[Command] = list(self.stagger.want(now))
        self._reconciling = self.stagger.granted
        return sends

    # Room

    @property
    def _is_full(self) -> bool:
        return not self.is_lost and any(line.is_full for line in self.lines.values())

    @property
    def _may_skip(self) -> bool:
        """Whether to go on without something that is kept nowhere any more."""
        return self._converges and (self.is_lost or self.settings.may_skip)

    def _make_room(self, now: int) -> list[Command]:
        """Keep what waits for the base within bounds."""
        commands: list[Command] = []
        if self.settings.may_skip:
            span = math.ceil(self.settings.retain / self.gate.size)
            commands += self._jump(self.gate.newest - span, now)
        for stream, intake in self.inputs.intakes.items():
            if not intake.is_paused and not self._has_room(stream, 1):
                commands += intake.pause()
            elif intake.is_paused and self._has_room(stream, 2):
                intake.resume()
                commands += self._read_on(now)
        return commands

    def _has_room(self, stream: str, part: int) -> bool:
        """Whether to read on: less waits of a stream than this part of what may."""
        gate, settings = self.gate, self.settings
        if gate.backlog == 0 and gate.boundary(stream) // gate.size <= gate.complete:
            # The base waits for this one, so nothing gets less before it is read.
            return True
        ahead = self.inputs.intakes[stream].position - gate.base * gate.size
        most = math.inf if settings.may_skip else settings.retain
        fits = self._has_shelf or gate.held(stream) < settings.room / part
        return fits and ahead < max(most / part, gate.size)

    def _jump(self, bucket: int, now: int) -> list[Command]:
        """Give up all before this bucket: the base begins anew and is silent until it is right."""
        if bucket <= self.gate.base:
            return []
        assert self._converges
        commands: list[Command] = [Restart(bucket)]
        outrun = self.gate.fork is not None and self.gate.fork < bucket
        if outrun:
            self.gate.join()
            commands.append(Drop())
        if self.working is not None and (outrun or not self.working.tentative):
            self.working = None
        self.gate.jump(bucket)
        boundary = bucket * self.gate.size
        self.consistent_from = self.place.consistent_from(boundary, self.gate.size)
        for line in self.lines.values():
            line.skip(self.consistent_from)
        self._jump_inputs(boundary, now)
        return commands

    def _jump_inputs(self, boundary: int, now: int) -> None:
        for stream, item in self.inputs.jump(boundary):
            self._take_item(stream, item, now)

    # Recovery

    def _look_for_a_state(self, now: int) -> list[Command]:
        """Ask a peer; if nobody has it, perhaps, converge or do everything again."""
        if self.recovery.is_in_vain:
            may_converge = self._converges and self.recovery.may_do_without(now, self.place.span)
            if may_converge or self.inputs.are_kept:
                self.recovery.do_without()
                return self._read_on(now)
            self.recovery.is_stranded = not self._converges
        return [self.recovery.ask(now, self.inputs.kept_from)]

    @property
    def _converges(self) -> bool:
        return self.place.span < math.inf

    @property
    def _has_begun(self) -> bool:
        return self.gate.base * self.gate.size > self.place.start

    def copied(self, copy: int, offer: StateOffer | None, now: int) -> list[Command]:
        """The copy of the base that was asked for is there, or could not be made."""
        return self.lending.copied(copy, offer, now)

    def expects(self, sender: str, piece: LogPiece) -> bool:
        """Whether this piece of a line was asked for."""
        return self.backfill is not None and self.backfill.expects(sender, piece, self.lines)

    def _take_offer(self, sender: str, offer: StateOffer, now: int) -> list[Command]:
        size, since = self.gate.size, self.inputs.kept_from
        commands = self.recovery.offered(sender, offer, since, size, now)
        if self.recovery.is_due(now):
            commands += self._look_for_a_state(now)
        return commands + (self._install(now) if self.recovery.has_all else [])

    def _install(self, now: int) -> list[Command]:
        """All pieces of a copy are there."""
        transfer = self.recovery.transfer
        assert transfer is not None
        offer = transfer.offer
        if offer.bucket * self.gate.size < self.inputs.kept_from:
            self.recovery.begin_anew()
            return self._look_for_a_state(now)
        self.resume(offer.bucket, offer.consistent_from, {}, now)
        self.fetch_older(transfer.peer)
        return [Install(offer.bucket, offer.copy), *self._ask_older(now), *self._read_on(now)]

    def fetch_older(self, first: str | None = None) -> None:
        """Have the peers asked for what they have kept of the lines and is older than what is here;
        `first` before the others."""
        streams = list(self.lines)
        self.backfill = Backfill(self.place.peers, first, streams, self.settings.retry)

    def _ask_older(self, now: int) -> list[Command]:
        return [] if self.backfill is None else self.backfill.ask(self.lines, now)

    def resume(
        self,
        bucket: int,
        consistent_from: int,
        lines: Mapping[str, Sequence[Segment]],
        now: int,
    ) -> None:
        """Go on from the state before this bucket, with what has been published until then."""
        self.recovery.end()
        self.gate.jump(bucket)
        self.gate.excuse(now)
        self.consistent_from = consistent_from
        boundary = bucket * self.gate.size
        for name, line in self.lines.items():
            line.restore(lines.get(name, ()), boundary)
            line.skip(consistent_from)
        self._jump_inputs(boundary, now)

    def left(self, reader: str) -> None:
        """A reader's link is gone; it may come again."""
        for line in self.lines.values():
            line.leave(reader)

    def _return_when_consistent(self) -> None:
        if self.recovery.asks or self.gate.backlog > self.settings.lag:
            return
        if self.gate.base * self.gate.size < self.consistent_from:
            return
        behind = max(1, self.settings.lag) * self.gate.size
        if not self.inputs.are_read(behind, enough=(self.gate.complete + 1) * self.gate.size):
            return
        self.recovery.end()
        for line in self.lines.values():
            line.skip(self.gate.base * self.gate.size)

    def _answer(self, asker: str, heartbeat: Heartbeat) -> Send:
        streams = {}
        for name, line in self.lines.items():
            if name in heartbeat.acks:
                line.acknowledge(asker, heartbeat.acks[name])
            if name in heartbeat.acks or line.knows(asker):
                streams[name] = line.progress(asker, self.stream_state(name))
        return Send(asker, Vitals(streams, heartbeat.sent))

    def _feed_on(self, reader: str, heartbeat: Heartbeat) -> list[Send]:
        """What a reader may be sent, now that it has read so much."""
        places = heartbeat.read.items()
        return [
            send
            for name, place in places
            if name in self.lines
            for send in self.lines[name].confirm(reader, place)
        ]
