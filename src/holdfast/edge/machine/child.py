"""A child: aggregates events of its partitions, replicates, takes over.

The only one that sees events. All it knows is in memory: a child that is started again gets its
place back from the root, its slots from its peers and the rest from the sensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from holdfast.edge.machine.closing import Closing, Outbox
from holdfast.edge.machine.heartbeats import BeatOptions
from holdfast.edge.machine.messages import (
    Adopt,
    Adopted,
    Beat,
    Events,
    Fenced,
    Fetch,
    Lost,
    Message,
    PaneTaken,
    Payload,
    Probe,
    Register,
    Registered,
    Relayed,
    Retire,
    RootTime,
    Roster,
    Safe,
    Send,
    SensorHello,
    SensorWelcome,
    StopSending,
)
from holdfast.edge.machine.ownership import Tenure
from holdfast.edge.machine.replay import Custody, Intake
from holdfast.edge.machine.replication import Replication
from holdfast.edge.machine.slots import Slots
from holdfast.groups import (
    Claim,
    Election,
    ElectionAck,
    Heard,
    Leader,
    NodeFailed,
    Ownership,
    Succession,
    succession,
)

SOMETIMES: Final = 2
"""Sensors are told what is safe at every so manieth cut."""
SELDOM: Final = 16
"""And at every so manieth copies of what is silent are looked through."""


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """`sync`: from cut to cut; None: nothing is replicated. `patience`: how long an answer of a
    sensor or a peer may take. `resend`: of closed panes that nobody has acknowledged. `rejoin`: how
    long a child that is back waits before it takes its partitions back. `give_up`: how long events
    that sensors do not have any more are looked for with children held for dead. `most_panes`: so
    many panes of a query may wait for the root; then events stay with the sensors."""

    beat: BeatOptions = field(default_factory=BeatOptions)
    sync: int | None = 100_000
    succession: Literal["bully", "ring", "spread"] = "spread"
    election_timeout: int = 200_000
    patience: int = 300_000
    resend: int = 300_000
    rejoin: int = 1_000_000
    give_up: int = 5_000_000
    most_panes: int = 10_000


class Child:
    def __init__(
        self,
        name: str,
        root: str,
        options: ChildOptions | None = None,
        *,
        life: int = 1,
        address: str = "",
        group: str = "",
        now: int = 0,
    ) -> None:
        """`life`: other than in all earlier lives of this child; the time of its start will do.
        `group`: the one to join, should it have been formed without this child."""
        self.name = name
        self.options = options or ChildOptions()
        self.place: Registered | None = None
        self._root = root
        self._register = Register(name, "child", address, life, group)
        self._register_at = now
        self._cut_at = now

    # What a shell calls.

    def receive(self, sender: str, message: Message, now: int) -> list[Send]:
        if isinstance(message, Registered):
            if self.place is not None:
                return self._grow(message, now)
            return self._enter(message, now) if message.start == self._register.life else []
        if self.place is None:
            return []
        if isinstance(message, Events):
            return self._take(message, now)
        return self._react(sender, message, now) + self._settle(now)

    def wake(self, now: int) -> list[Send]:
        if self.place is None:
            if now < self._register_at:
                return []
            self._register_at = now + self.options.resend
            return [Send(self._root, self._register)]
        sends = self._cut(now) + self.tenure.wake(now) + self._settle(now) + self._give_up(now)
        overdue = self.custody.overdue(now)
        for slot in overdue:
            sends += self.custody.ask(slot, self._own[slot.partition], now)
        sends += self._fetch(slot.partition for slot in overdue if slot.sensor in self._leaving)
        return sends + self._send_up(now)

    def due(self, now: int) -> int | None:
        if self.place is None:
            return self._register_at
        cut = None if self.options.sync is None else self._cut_at
        give_up = min(self._leaving.values(), default=None)
        times = (self.tenure.due(now), self.custody.due, self.outbox.due, cut, give_up)
        return min((time for time in times if time is not None), default=None)

    def ended(self, node: str, now: int) -> list[Send]:
        """The process of a peer is seen to be gone: its connection was closed, and its address
        refuses new ones."""
        if self.place is None:
            return []
        return self.tenure.ended(node, now) + self._settle(now)

    @property
    def owned(self) -> tuple[int, ...]:
        return () if self.place is None else tuple(sorted(self._own))

    def _react(self, sender: str, message: Message, now: int) -> list[Send]:
        match message:
            case Payload() | Beat() if not self.tenure.presence.members.knows(sender):
                return self._who_is(now)
            case Payload():
                return self._join(sender, message, now)
            case Beat():
                self._heard(sender, message.life, message.claims, now)
            case Probe():
                return self.tenure.presence.answer(message, self.tenure.ownership.claims, now)
            case Relayed():
                beat = message.beat
                self._heard(message.node, beat.life, beat.claims, now, relayed=True)
            case PaneTaken():
                self._parents_down.discard(sender)
                self.outbox.taken(sender, message)
                self._free(message.query, message.freed)
            case Lost():
                return self._lost(message, now)
            case Fenced(partition, epoch, node):
                self.tenure.offer([Claim(partition, epoch, node)], now)
            case NodeFailed() | Election() | ElectionAck() | Leader():
                return self.tenure.receive(sender, message, now)
            case Fetch():
                return self._give(sender, message)
            case SensorHello():
                return self._hello(message)
            case RootTime():
                return [Send(message.sensor, message)]
            case Roster():
                return self._seat(message, now)
            case Adopt():
                return self._adopt(message)
            case Retire():
                self._retire(message.query)
            case StopSending():
                self._parents_down.add(message.failed)
        return []

    # Registration, sensors, queries.

    def _enter(self, place: Registered, now: int) -> list[Send]:
        self.place = place
        self._life = place.life
        options = self.options
        self.tenure = Tenure(
            self.name,
            self._life,
            place.members,
            Ownership(place.home),
            partial(_succession, options, self.name),
            options.beat,
            now,
            root=self._root,
        )
        self.tenure.ownership.rehome(place.homes)
        self.tenure.offer(place.claims, now)
        self.slots = Slots(place.roster)
        for query in place.queries:
            self.slots.adopt(query)
        for query_id, until in place.freed.items():
            self.slots.free(query_id, until)
        self.closing = Closing(self.slots)
        self.custody = Custody(self.slots, self.options.patience, self.options.give_up)
        self.replication = Replication(self._life)
        self.outbox = Outbox(place.group, self.options.resend)
        self.intake = Intake(self.slots, self.closing, place.guarantee, self.options.most_panes)
        self._firsts: dict[str, int] = {}
        self._parents_down: set[str] = set()
        self._guests: set[str] = set()
        self._leaving: dict[str, int] = {}
        """Sensors that have left, and until when their last words are waited for."""
        self._wait_for_leaving(now)
        self._cuts = 0
        self._plan_cut(now)
        self._steady_at = now + self.options.rejoin
        self._own: dict[int, Claim] = {}
        return self._settle(now)

    def _grow(self, place: Registered, now: int) -> list[Send]:
        """A child has joined the group."""
        assert self.place is not None
        if {*place.members} > {*self.place.members}:
            self.place = place
            self.tenure.admit(place.members, place.homes, now)
        return []

    def _who_is(self, now: int) -> list[Send]:
        """Somebody speaks as a member that is none, as far as we know: the root knows."""
        if now < self._register_at:
            return []
        self._register_at = now + self.options.resend
        return [Send(self._root, self._register)]

    def _hello(self, message: SensorHello) -> list[Send]:
        assert self.place is not None
        sitting = self.slots.sitting(message.sensor)
        leaves = message.end is not None
        if sitting is None or leaves is (sitting.end is None):
            self._guests.add(message.sensor)
            return [Send(self._root, message)]
        self._guests.discard(message.sensor)
        welcome = SensorWelcome(
            self.place.group,
            sitting.start,
            self.tenure.ownership.claims,
            self.place.addresses,
            self.place.guarantee,
            sitting.end,
        )
        asks_time = [] if message.clock is None else [Send(self._root, message)]
        return [Send(message.sensor, welcome), *asks_time]

    def _seat(self, roster: Roster, now: int) -> list[Send]:
        before = set(self.slots.sensors)
        if not self.slots.seat(roster):
            return []
        self._wait_for_leaving(now)
        guests = sorted(self._guests & set(self.slots.sensors))
        sends = [send for guest in guests for send in self._answer(guest)]
        for partition, claim in self._own.items():
            self.outbox.drop(partition)
            self.closing.open(partition)
            sends += self._close(claim, now)
            for slot in self.slots.of(partition):
                if slot.sensor not in before:
                    sends += self.custody.ask(slot, claim, now)
        return sends

    def _answer(self, guest: str) -> list[Send]:
        """A sensor that asked to take part does so, or no longer, as it asked."""
        sitting = self.slots.sitting(guest)
        if sitting is None or not (sitting.end is None or sitting.said):
            return []
        return self._hello(SensorHello(guest, 0, end=sitting.end))

    def _wait_for_leaving(self, now: int) -> None:
        """What sensors that have left sent last may still be on its way."""
        leaving = self.slots.leaving
        self._leaving = {
            name: self._leaving.get(name, now + self._wait(name)) for name in sorted(leaving)
        }

    def _wait(self, sensor: str) -> int:
        """One that left by its own word is there until all it had is safe."""
        sitting = self.slots.sitting(sensor)
        is_there = sitting is not None and sitting.said
        return self.options.give_up if is_there else self.options.patience

    def _give_up(self, now: int) -> list[Send]:
        """Wait no longer for the last words of sensors that have left."""
        over = {sensor for sensor, until in self._leaving.items() if until <= now}
        if not over:
            return []
        self._leaving = {s: until for s, until in self._leaving.items() if s not in over}
        self.slots.given_up |= over
        for partition in self._own:
            for sensor in self.slots.given_up:
                self.custody.drop(partition, sensor)
        return [send for claim in self._own.values() for send in self._close(claim, now)]

    def _adopt(self, message: Adopt) -> list[Send]:
        assert self.place is not None
        query = message.query
        if query.id in self.slots.queries:
            self._free(query.id, message.begin)
        else:
            self._firsts[query.id] = self.slots.adopt(query)
            self.slots.free(query.id, message.begin)
            self.closing.adopt(self.slots.queries[query.id])
        first = self._firsts.get(query.id, 0)
        return [Send(self._root, Adopted(self.place.group, query.id, self.name, first))]

    def _retire(self, query: str) -> None:
        self._firsts.pop(query, None)
        self.slots.retire(query)
        self.closing.retire(query)
        self.outbox.retire(query)

    # Events.

    def _take(self, message: Events, now: int) -> list[Send]:
        claim = self._own.get(message.partition)
        if claim is None:
            return self._pass_on(message)
        slot = self.slots.get(message.partition, message.sensor)
        if slot is None:
            # The root knows it, or will.
            return [Send(self._root, SensorHello(message.sensor, message.boundary))]
        if message.sensor in self._leaving:
            self._leaving[message.sensor] = now + self._wait(message.sensor)
        if not self.intake.take(slot, message):
            return self.custody.ask(slot, claim, now)
        if self.custody.asking and message.epoch >= claim.epoch:
            self.custody.answered(slot)
        if self.closing.is_due(message.partition, slot.boundary):
            return self._close(claim, now)
        return []

    def _pass_on(self, message: Events) -> list[Send]:
        """Tell a sensor whose the partition is, if it does not know."""
        if message.partition not in self.tenure.ownership.partitions:
            return []
        claim = self.tenure.ownership.claim(message.partition)
        if claim.rank <= (message.epoch, self.name):
            return []
        assert self.place is not None
        known = self.place.addresses
        addresses = {claim.node: known[claim.node]} if claim.node in known else {}
        fenced = Fenced(claim.partition, claim.epoch, claim.node, addresses)
        return [Send(message.sensor, fenced)]

    def _lost(self, message: Lost, now: int) -> list[Send]:
        claim = self._own.get(message.partition)
        slot = self.slots.get(message.partition, message.sensor)
        if claim is None or slot is None or message.epoch != claim.epoch:
            return []
        others = self.tenure.presence.members.others
        all_live = len(self.tenure.near) == len(others)
        sends = self.custody.lost(slot, message, claim, others, now, all_live=all_live)
        return sends + self._close(claim, now)

    # Upward.

    def _close(self, claim: Claim, now: int) -> list[Send]:
        if len(self.outbox) < self.options.most_panes:
            for query, pane, partial in self.closing.close(claim):
                self.outbox.put(query, pane, partial)
        return self._send_up(now)

    def _send_up(self, now: int) -> list[Send]:
        assert self.place is not None
        down = self.tenure.down
        return self.outbox.send(self.place.parents, self._parents_down, down, now)

    def _free(self, query: str, until: int) -> None:
        if self.slots.free(query, until):
            self.outbox.free(query, self.slots.queries[query].length, until)

    # Replication.

    def _plan_cut(self, now: int) -> None:
        """All children cut at about the same time, between two panes: what they say to each other
        then is dealt with together."""
        sync = self.options.sync or 0
        if sync:
            self._cut_at = now + sync - (now - sync // 2) % sync

    def _cut(self, now: int) -> list[Send]:
        if self.options.sync is None or now < self._cut_at:
            return []
        self._plan_cut(now)
        self._cuts += 1
        # One that only the root hears has no part in what is replicated until it is heard.
        live, claims = self.tenure.near, self.tenure.ownership.claims
        own = [slot for partition in self._own for slot in self.slots.of(partition)]
        self.slots.sweep(self.slots if self._cuts % SELDOM == 0 else own)
        sends = self.replication.cut(own, claims, self.slots, live)
        self.tenure.presence.spoke(live, now)
        if self._cuts % SOMETIMES:
            return sends
        floor, leaving = self.slots.floor, self._leaving
        for slot, offset, boundary in self.replication.safe(own, live, floor, leaving):
            claim = self._own[slot.partition]
            safe = Safe(slot.partition, claim.epoch, claim.node, offset, boundary)
            sends.append(Send(slot.sensor, safe))
        return sends

    def _heard(
        self, sender: str, life: int, claims: Iterable[Claim], now: int, *, relayed: bool = False
    ) -> Heard:
        heard = self.tenure.heard(sender, life, claims, now, relayed=relayed)
        if heard is Heard.REBORN:
            self.replication.forget(sender)
        return heard

    def _join(self, sender: str, message: Payload, now: int) -> list[Send]:
        if self._heard(sender, message.life, message.claims, now) is Heard.OLD:
            return []
        sends = self._settle(now)
        for query, until in message.freed.items():
            self._free(query, until)
        has_all = self.replication.has_base(sender, message)
        for delta in message.slots:
            is_ours = delta.partition in self._own
            has_all &= self.slots.join(delta, message.queries, at_once=is_ours)
        if not self._own.keys().isdisjoint(delta.partition for delta in message.slots):
            for partition in sorted({delta.partition for delta in message.slots} & {*self._own}):
                sends += self._close(self._own[partition], now)
        if not message.number:
            return sends
        self.replication.heard(self.name, sender, message, has_all=has_all)
        if has_all and now >= self._steady_at:
            sends += self.tenure.reinstate(
                sender, [claim.partition for claim in message.claims if claim.node == sender]
            )
        return sends

    def _fetch(self, partitions: Iterable[int]) -> list[Send]:
        """Ask the others for what sensors have said that are perhaps not there any more."""
        wanted = tuple(sorted(set(partitions)))
        others = self.tenure.presence.members.others
        return [Send(other, Fetch(wanted)) for other in others] if wanted else []

    def _give(self, sender: str, message: Fetch) -> list[Send]:
        for partition in message.partitions:
            self.slots.catch_up(partition)
        slots = [slot for p in message.partitions for slot in self.slots.of(p)]
        payload = Payload(
            0,
            0,
            self._life,
            (),
            tuple(slot.delta(0) for slot in slots),
            tuple(self.slots.queries),
            dict(self.slots.freed),
        )
        return [Send(sender, payload)]

    # Take-overs.

    def _settle(self, now: int) -> list[Send]:
        """Do what follows when something became ours or another's."""
        if self.tenure.own is self._own:
            return []
        before, self._own = self._own, self.tenure.own
        for partition in before.keys() - self._own.keys():
            self.outbox.drop(partition)
            self.closing.release(partition)
            self.custody.release(partition)
            self.replication.release(partition)
            self._steady_at = now + self.options.rejoin
        taken = [p for p, claim in sorted(self._own.items()) if before.get(p) != claim]
        sends = self._fetch(taken) if self._leaving else []
        for partition, claim in sorted(self._own.items()):
            if before.get(partition) != claim:
                self.custody.release(partition)
                self.slots.catch_up(partition)
                self.closing.open(partition)
                sends += self.custody.take(claim, now)
                sends += self._close(claim, now)
        return sends


def _succession(options: ChildOptions, me: str, members: Sequence[str]) -> Succession:
    return succession(options.succession, me, members, options.election_timeout)
