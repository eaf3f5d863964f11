"""A child: aggregates the events of its partitions, keeps copies of its peers', takes over.

The only one that sees events. All it knows is in memory: a child that is started again gets its
place back from the root, its slots from its peers and the rest from the sensors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from holdfast.protocol.edge.closing import Closing
from holdfast.protocol.edge.custody import Custody
from holdfast.protocol.edge.intake import Intake
from holdfast.protocol.edge.messages import (
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
    PayloadAck,
    Register,
    Registered,
    Roster,
    Safe,
    Send,
    SensorHello,
    SensorWelcome,
    StopSending,
)
from holdfast.protocol.edge.outbox import Outbox
from holdfast.protocol.edge.presence import BeatOptions
from holdfast.protocol.edge.replication import Replication
from holdfast.protocol.edge.slots import Slots
from holdfast.protocol.edge.tenure import Tenure
from holdfast.protocol.groups import (
    Claim,
    Election,
    ElectionAck,
    Heard,
    Leader,
    NodeFailed,
    Ownership,
    succession,
)

__all__ = ["Child", "ChildOptions"]


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
        now: int = 0,
    ) -> None:
        """`life`: larger than in all earlier lives of this child; the time of its start will do."""
        self.name = name
        self.options = options or ChildOptions()
        self.place: Registered | None = None
        self._root = root
        self._life = life
        self._register = Register(name, "child", address, life)
        self._register_at = now
        self._cut_at = now

    # What a shell calls.

    def receive(self, sender: str, message: Message, now: int) -> list[Send]:
        if isinstance(message, Registered):
            return self._enter(message, now) if self.place is None else []
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
        sends = self.tenure.wake(now) + self._settle(now)
        for slot in self.custody.overdue(now):
            sends += self.custody.ask(slot, self._own[slot.partition], now)
        if self.options.sync is not None and now >= self._cut_at:
            self._cut_at = now + self.options.sync
            sends += self._cut()
        return sends + self._send_up(now)

    def due(self, now: int) -> int | None:
        if self.place is None:
            return self._register_at
        cut = None if self.options.sync is None else self._cut_at
        times = (self.tenure.due(now), self.custody.due, self.outbox.due, cut)
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
            case Payload():
                return self._join(sender, message, now)
            case PayloadAck(life=life) if life == self.tenure.presence.members.life(sender):
                self.replication.ack(sender, message)
            case Beat():
                if self.tenure.heard(sender, message, now) is Heard.REBORN:
                    self.replication.forget(sender)
            case PaneTaken():
                self._parents_down.discard(sender)
                self.outbox.taken(sender, message)
                self._free(message.query, message.freed)
            case Lost():
                return self._lost(message, now)
            case Fenced(partition, epoch, node):
                self.tenure.offer([Claim(partition, epoch, node)])
            case NodeFailed() | Election() | ElectionAck() | Leader():
                return self.tenure.receive(sender, message, now)
            case Fetch():
                return self._give(sender, message)
            case SensorHello():
                return self._hello(message)
            case Roster():
                return self._seat(message, now)
            case Adopt():
                return self._adopt(message)
            case StopSending():
                self._parents_down.add(message.failed)
        return []

    # Registration, sensors, queries.

    def _enter(self, place: Registered, now: int) -> list[Send]:
        self.place = place
        options = self.options
        self.tenure = Tenure(
            self.name,
            self._life,
            place.members,
            Ownership(place.home),
            succession(options.succession, self.name, place.members, options.election_timeout),
            options.beat,
            now,
        )
        self.tenure.offer(place.claims)
        self.slots = Slots(place.roster)
        for query in place.queries:
            self.slots.adopt(query)
        for query_id, until in place.freed.items():
            self.slots.free(query_id, until)
        self.closing = Closing(self.slots)
        self.custody = Custody(self.slots, self.options.patience, self.options.give_up)
        self.replication = Replication()
        self.outbox = Outbox(place.group, self.options.resend)
        self.intake = Intake(self.slots, place.guarantee, self.options.most_panes)
        self._firsts: dict[str, int] = {}
        self._parents_down: set[str] = set()
        self._guests: set[str] = set()
        self._cut_at = now + (self.options.sync or 0)
        self._steady_at = now + self.options.rejoin
        self._own: dict[int, Claim] = {}
        return self._settle(now)

    def _hello(self, message: SensorHello) -> list[Send]:
        assert self.place is not None
        for sitting in self.slots.roster.sittings:
            if sitting.sensor == message.sensor and sitting.end is None:
                welcome = SensorWelcome(
                    self.place.group,
                    sitting.start,
                    self.tenure.ownership.claims,
                    self.place.addresses,
                    self.place.guarantee,
                )
                self._guests.discard(message.sensor)
                return [Send(message.sensor, welcome)]
        self._guests.add(message.sensor)
        return [Send(self._root, message)]

    def _seat(self, roster: Roster, now: int) -> list[Send]:
        before = set(self.slots.sensors)
        if not self.slots.seat(roster):
            return []
        guests = sorted(self._guests & set(self.slots.sensors))
        sends = [send for guest in guests for send in self._hello(SensorHello(guest, 0))]
        for partition, claim in self._own.items():
            self.outbox.drop(partition)
            self.closing.open(partition)
            sends += self._close(claim, now)
            for slot in self.slots.of(partition):
                if slot.sensor not in before:
                    sends += self.custody.ask(slot, claim, now)
        return sends

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

    # Events.

    def _take(self, message: Events, now: int) -> list[Send]:
        claim = self._own.get(message.partition)
        if claim is None:
            return self._pass_on(message)
        slot = self.slots.get(message.partition, message.sensor)
        if slot is None:
            # The root knows it, or will.
            return [Send(self._root, SensorHello(message.sensor, message.boundary))]
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
        return [Send(message.sensor, Fenced(claim.partition, claim.epoch, claim.node))]

    def _lost(self, message: Lost, now: int) -> list[Send]:
        claim = self._own.get(message.partition)
        slot = self.slots.get(message.partition, message.sensor)
        if claim is None or slot is None or message.epoch != claim.epoch:
            return []
        others, down = self.tenure.presence.members.others, self.tenure.down
        sends = self.custody.lost(slot, message, claim, others, now, all_live=not down)
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

    def _cut(self) -> list[Send]:
        live = self.tenure.live
        claims = [self._own[partition] for partition in sorted(self._own)]
        sends = self.replication.cut(self.slots, claims, live) if claims else []
        floor = self.slots.floor
        for claim in claims:
            for slot in self.slots.of(claim.partition):
                offset = self.replication.safe(slot, live, floor)
                if offset is not None:
                    safe = Safe(claim.partition, claim.epoch, claim.node, offset)
                    sends.append(Send(slot.sensor, safe))
        return sends

    def _join(self, sender: str, message: Payload, now: int) -> list[Send]:
        self.tenure.offer(message.claims)
        for query, until in message.freed.items():
            self._free(query, until)
        for delta in message.slots:
            self.slots.join(delta, message.queries)
        sends: list[Send] = []
        for partition in sorted({delta.partition for delta in message.slots} & self._own.keys()):
            sends += self._close(self._own[partition], now)
        if message.number:
            found = (self.slots.get(each.partition, each.sensor) for each in message.versions)
            versions = tuple(slot.version for slot in found if slot is not None)
            sends.append(Send(sender, PayloadAck(message.number, self._life, versions)))
        return sends + self._reinstate(sender, message, now)

    def _give(self, sender: str, message: Fetch) -> list[Send]:
        slots = [slot for p in message.partitions for slot in self.slots.of(p) if slot.offset]
        payload = Payload(
            0,
            (),
            tuple(slot.delta(0) for slot in slots),
            tuple(slot.version for slot in slots),
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
        sends = []
        for partition, claim in sorted(self._own.items()):
            if before.get(partition) != claim:
                self.custody.release(partition)
                self.closing.open(partition)
                sends += self.custody.take(claim, now)
                sends += self._close(claim, now)
        return sends

    def _reinstate(self, sender: str, message: Payload, now: int) -> list[Send]:
        """What was ours at first becomes ours again, once we have what its owner has."""
        if now < self._steady_at or not message.number:
            return []
        behind = set()
        for each in message.versions:
            slot = self.slots.get(each.partition, each.sensor)
            if slot is None or slot.offset < each.offset:
                behind.add(each.partition)
        theirs = {claim.partition for claim in message.claims if claim.node == sender}
        return self.tenure.reinstate(sender, theirs - behind)
