"""Seats of a stage whose replicas share its work: one node for each seat.

A seat is a part of the stage's buckets, and to the protocol a stage of its own: a stream that any
replica of the stage can publish, and the one that sits there does. So what holds for replicas holds
here: readers take a seat's stream from whoever has it, each bucket once, and if two sit in a seat
for a while they publish the same. A seat that is taken over goes on from what its readers have
acknowledged; nothing is acknowledged above before that, so all of it is still to be had.

The shell carries what comes out, and wakes it when it is due.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from holdfast.pipeline.gates.order import Stretch
from holdfast.pipeline.machine import messages
from holdfast.pipeline.machine.commands import Command, Restart, StartOver, Work
from holdfast.pipeline.machine.messages import (
    Heartbeat,
    Progress,
    Read,
    Subscribe,
    Unsubscribe,
    Vitals,
)
from holdfast.pipeline.machine.node import Node
from holdfast.pipeline.machine.output_log import known_as
from holdfast.pipeline.machine.sharing.membership import Membership
from holdfast.pipeline.machine.sharing.messages import (
    Announce,
    Announced,
    Join,
    Packet,
    Send,
    Snapshot,
    TakeOver,
    View,
    Word,
)
from holdfast.pipeline.machine.sharing.plan import Operator, Plan, Rules
from holdfast.pipeline.machine.tuples import Row, Segment, shard_of

# Which seats a replica sits in that shares the work of a stage: its own, and those it took over.
#
# Membership, for those whose tuples lie in logs: whoever takes a seat over reads again what its log
# still lacks, so there are no records to hand over, and readers see by the vitals who speaks for a
# seat. The shell carries what it says, and wakes it when it is due.

STAGE: Final = "stage"
READERS: Final = "readers"
"""Nobody has this name: they need not be told."""


class Seating:
    """`life`: larger at each start. It sits nowhere before it has heard its colleagues, or nobody
    has answered for a while."""

    def __init__(
        self, me: str, replicas: Sequence[str], rules: Rules, *, life: int, now: int
    ) -> None:
        plan = Plan([Operator(STAGE, tuple(replicas), (READERS,)), Operator(READERS, (READERS,))])
        self.me = me
        self._members = Membership(me, plan, rules, max(1, life), now)
        self._nudge = rules.nudge
        self._next_nudge = now

    @property
    def seats(self) -> tuple[int, ...]:
        """Where it sits now, by number from 0."""
        members = self._members
        if not members.is_active:
            return ()
        own = members.own
        return tuple(at for at, _ in enumerate(own.replicas) if own.sitter(at) == self.me)

    @property
    def due(self) -> int:
        """When to wake it next."""
        if not self._members.is_active:
            return self._members.due
        return min(self._members.due, self._next_nudge)

    def receive(self, sender: str, word: Word, now: int) -> list[Send]:
        members = self._members
        if sender not in members.own.replicas or sender == self.me:
            return []
        if isinstance(word, TakeOver) and word.failed not in members.own.replicas:
            return []
        sends: list[Send] = []
        match word:
            case Join():
                if members.welcome(sender, word.life, now):
                    views = (members.view(STAGE),)
                    sends.append(Send(sender, Snapshot(word.life, views, (), (), ())))
            case Snapshot():
                if not members.is_active and word.life == members.life:
                    for view in word.views:
                        members.learn(view)
                    members.met(sender, now)
            case View():
                members.learn(word)
            case _:
                if isinstance(word, Announce):
                    members.learn(word.view)
                elif not isinstance(word, Announced):
                    members.learn(View(STAGE, word.claims))
                self._step_aside(now)
                sends += members.receive(sender, word, now)
        self._step_aside(now)
        return [*sends, *self._return(now)]

    def wake(self, now: int) -> list[Send]:
        if not self._members.is_active:
            return self._return(now) or self._members.join(now)
        return [*_tell_colleagues(self._members.wake(now)), *self._remind(now)]

    def _remind(self, now: int) -> list[Send]:
        """Tell those whose seats others have: nobody pings them, and if they were only cut off they
        think the same of us."""
        if now < self._next_nudge:
            return []
        self._next_nudge = now + self._nudge
        view = self._members.view(STAGE)
        gone = set(self._members.own.replicas) - set(self._members.own.live)
        return [Send(name, view) for name in sorted(gone)]

    def _return(self, now: int) -> list[Send]:
        """Take my seat when I know enough."""
        if not self._members.may_return(now):
            return []
        self._members.come_back(now)
        return _tell_colleagues(self._members.wake(now))

    def _step_aside(self, now: int) -> None:
        """If another has my seat, or I had it in a later life by a clock that was set back."""
        members = self._members
        if members.is_fenced:
            members.life = max(members.life, members.own.life(self.me) or 0)
            members.fence(now)


def _tell_colleagues(sends: list[Send]) -> list[Send]:
    return [send for send in sends if send.to != READERS]


def seat_of(bucket: int, seats: int, routing: str) -> int:
    """Whose a bucket is: all replicas come to the same."""
    match routing:
        case "hash":
            return shard_of(bucket, seats)
        case "primary":
            return 0
        case _:
            return bucket % seats


@dataclass(frozen=True, slots=True)
class Sit:
    """From now on it speaks for this seat."""

    seat: int


@dataclass(frozen=True, slots=True)
class Leave:
    """It does so no longer."""

    seat: int


@dataclass(frozen=True, slots=True)
class Above:
    """A word to who publishes an input, in the name of the seat."""

    seat: int
    send: messages.Send


@dataclass(frozen=True, slots=True)
class Task:
    """Have these rows processed, then call `finished`."""

    seat: int
    work: Work
    stretch: Stretch
    """The work's, with rows in buckets of the seat only."""


Order = Sit | Leave | Above | Task | messages.Send


class Seats:
    """`names`: of the seats' streams. `make`: the node of a seat, which has lost its state.
    `readers`: of the stage. `keeps`: whether a bucket is kept above until all have it."""

    def __init__(
        self,
        seating: Seating,
        names: Sequence[str],
        make: Callable[[int, int], Node],
        readers: Sequence[str],
        *,
        size: int,
        routing: str,
        keeps: bool = True,
    ) -> None:
        self.seating = seating
        self.names = tuple(names)
        self.nodes: dict[int, Node] = {}
        self._make = make
        self._size = size
        self._routing = routing
        self._keeps = keeps
        self._acks: dict[str, dict[str, int | None]] = {
            name: dict.fromkeys(readers) for name in names
        }

    @property
    def next_wake(self) -> float:
        return min([self.seating.due, *(node.next_wake for node in self.nodes.values())])

    def wake(self, now: int) -> list[Order]:
        orders: list[Order] = []
        if now >= self.seating.due:
            orders += _to_colleagues(self.seating.wake(now))
            orders += self._look(now)
        for seat, node in list(self.nodes.items()):
            if now >= node.next_wake:
                orders += self._do(seat, node.wake(now), now)
        return orders

    def receive(self, sender: str, message: messages.Message, now: int) -> list[Order]:
        """From a reader, or a colleague."""
        match message:
            case Heartbeat():
                return self._answer(sender, message, now)
            case Subscribe() | Unsubscribe() | Read():
                orders: list[Order] = []
                if message.stream in self.names:
                    seat = self.names.index(message.stream)
                    if seat in self.nodes:
                        orders += self._do(
                            seat, self.nodes[seat].receive(sender, message, now), now
                        )
                return orders
            case _ if isinstance(message, Word):
                said = self.seating.receive(sender, message, now)
                return [*_to_colleagues(said), *self._look(now)]
            case _:
                return []

    def receive_input(
        self, seat: int, sender: str, message: messages.Message, now: int
    ) -> list[Order]:
        """From who publishes an input."""
        node = self.nodes.get(seat)
        return [] if node is None else self._do(seat, node.receive(sender, message, now), now)

    def finished(self, task: Task, rows: Sequence[Row], now: int) -> list[Order]:
        """The task is done, with these rows."""
        node = self.nodes.get(task.seat)
        if node is None:
            return []
        name = self.names[task.seat]
        return self._do(task.seat, node.finished(task.work, {name: rows}, now), now)

    def left(self, reader: str) -> None:
        """A reader's link is gone; it may come again."""
        for node in self.nodes.values():
            node.left(reader)

    def _answer(self, reader: str, heartbeat: Heartbeat, now: int) -> list[Order]:
        """One answer for all seats: a stream that it does not speak of has failed here."""
        for stream, boundary in heartbeat.acks.items():
            known = self._acks.get(stream, {})
            name = known_as(reader, known)
            if name is not None:
                known[name] = max(boundary, known[name] or 0)
        streams: dict[str, Progress] = {}
        orders: list[Order] = []
        for seat, node in list(self.nodes.items()):
            for order in self._do(seat, node.receive(reader, heartbeat, now), now):
                if isinstance(order, messages.Send) and isinstance(order.message, Vitals):
                    streams.update(order.message.streams)
                else:
                    orders.append(order)
        return [messages.Send(reader, Vitals(streams, heartbeat.sent)), *orders]

    def _look(self, now: int) -> list[Order]:
        """Sit down where I have to, and leave where another sits."""
        orders: list[Order] = []
        for seat in [seat for seat in self.nodes if seat not in self.seating.seats]:
            del self.nodes[seat]
            orders.append(Leave(seat))
        for seat in self.seating.seats:
            if seat not in self.nodes:
                orders.append(Sit(seat))
                orders += self._begin(seat, now)
        return orders

    def _begin(self, seat: int, now: int) -> list[Order]:
        """Go on from what all readers have; if they have not told, from what is kept above."""
        node = self.nodes[seat] = self._make(seat, now)
        acks = self._acks[self.names[seat]].values()
        known = [boundary for boundary in acks if boundary is not None]
        if known and len(known) == len(acks):
            bucket = min(known) // self._size
            node.resume(bucket, bucket * self._size, {}, now)
        return self._do(seat, node.wake(now), now)

    def _do(self, seat: int, commands: Sequence[Command], now: int) -> list[Order]:
        node, orders = self.nodes[seat], list[Order]()
        waiting = deque(commands)
        while waiting or node.gate.base > node.gate.kept:
            if not waiting:
                # There is no state that could be lost.
                waiting.extend(node.saved(node.gate.base, now))
                continue
            match command := waiting.popleft():
                case messages.Send(to):
                    is_above = any(to in names for names in node.place.inputs.values())
                    above = Above(seat, self._held_back(node, command))
                    orders.append(above if is_above else command)
                case Work():
                    task = self._task(seat, command)
                    if any(task.stretch.rows.values()):
                        orders.append(task)
                    else:
                        nothing = {self.names[seat]: ()}
                        waiting.extend(node.finished(command, nothing, now))
                case Restart(bucket):
                    self._bridge(node, bucket * self._size)
                case StartOver():
                    # What is next is not kept any more: go on from what is.
                    node = self.nodes[seat] = self._make(seat, now)
                    waiting = deque(node.wake(now))
        return orders

    def _task(self, seat: int, work: Work) -> Task:
        rows = {
            stream: tuple(row for row in some if self._seat(row) == seat)
            for stream, some in work.stretch.rows.items()
        }
        return Task(seat, work, replace(work.stretch, rows=rows))

    def _seat(self, row: Row) -> int:
        return seat_of(row.stime // self._size, len(self.names), self._routing)

    def _held_back(self, node: Node, send: messages.Send) -> messages.Send:
        """What is only in our own log goes with us: nothing is acknowledged before all readers
        have what came of it."""
        if not self._keeps or not isinstance(send.message, Heartbeat):
            return send
        (line,) = node.lines.values()
        acks = {
            stream: min(boundary, line.acknowledged)
            for stream, boundary in send.message.acks.items()
        }
        return replace(send, message=replace(send.message, acks=acks))

    def _bridge(self, node: Node, boundary: int) -> None:
        """Where a bucket counts at most once, readers do without what is kept nowhere."""
        (line,) = node.lines.values()
        if not self._keeps and not line.segments:
            line.restore((Segment(0, boundary, ()),), boundary)


def _to_colleagues(sends: Sequence[Send]) -> list[messages.Send]:
    """Packets are for those who hand tuples over, which is not done here."""
    return [
        messages.Send(send.to, send.message)
        for send in sends
        if not isinstance(send.message, Packet)
    ]
