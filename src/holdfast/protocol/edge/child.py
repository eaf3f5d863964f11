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
    Query,
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
from holdfast.protocol.edge.presence import BeatOptions, Presence
from holdfast.protocol.edge.replication import Replication
from holdfast.protocol.edge.slots import Slots
from holdfast.protocol.groups import (
    Claim,
    Election,
    ElectionAck,
    Heard,
    Leader,
    NodeFailed,
    Outcome,
    Ownership,
    succession,
)

__all__ = ["Child", "ChildOptions"]


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """`sync`: from cut to cut; None: nothing is replicated. `patience`: how long an answer of a
    sensor or a peer may take. `resend`: of closed panes that nobody has acknowledged. `rejoin`: how
    long a child that is back waits before it takes its partitions back. `most_panes`: so many panes
    of a query may wait for the root; then events are not taken, and stay with the sensors."""

    beat: BeatOptions = field(default_factory=BeatOptions)
    sync: int | None = 100_000
    succession: Literal["bully", "ring", "spread"] = "spread"
    election_timeout: int = 200_000
    patience: int = 300_000
    resend: int = 300_000
    rejoin: int = 1_000_000
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
        self.takeovers = 0
        self.reinstatements = 0
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
        match message:
            case Events():
                return self._take(message, now)
            case Payload():
                return self._join(sender, message, now)
            case PayloadAck():
                if message.life == self.presence.members.life(sender):
                    self.replication.ack(sender, message)
                return []
            case Beat():
                return self._heard(sender, message, now)
            case PaneTaken():
                return self._taken(sender, message)
            case Lost():
                return self._lost(message, now)
            case Fenced(partition, epoch, node):
                return self._offer([Claim(partition, epoch, node)], now)
            case NodeFailed():
                if self.presence.told(message, now):
                    return self._failed(message.failed, now)
                return []
            case Election() | ElectionAck():
                return self._elect(sender, message, now)
            case Leader():
                self.succession.settled(message.failed)
                return self._offer(message.claims, now)
            case Fetch():
                return self._give(sender, message)
            case SensorHello():
                return self._hello(sender, message)
            case Roster():
                return self._seat(message, now)
            case Adopt():
                return self._adopt(message.query)
            case StopSending():
                self._parents_down.add(message.failed)
                return []
            case _:
                return []

    def wake(self, now: int) -> list[Send]:
        if self.place is None:
            if now < self._register_at:
                return []
            self._register_at = now + self.options.resend
            return [Send(self._root, self._register)]
        sends = self.presence.beat(self.ownership.claims, now)
        found, words = self.presence.check(now)
        sends += words
        for failed in found:
            sends += self._failed(failed, now)
        live = self.presence.members.live
        sends += self._do(self.succession.wake(live, now), now)
        sends += self._orphans(now)
        for slot in self.custody.overdue(now):
            sends += self.custody.ask(slot, self.ownership.claim(slot.partition), now)
        if self.options.sync is not None and now >= self._cut_at:
            self._cut_at = now + self.options.sync
            sends += self._cut()
        return sends + self._send_up(now)

    def due(self, now: int) -> int | None:
        if self.place is None:
            return self._register_at
        times = [
            self.presence.due,
            self.presence.members.next_check(now) if self.options.beat.period else None,
            self.succession.due,
            self.custody.due,
            self.outbox.due,
            None if self.options.sync is None else self._cut_at,
        ]
        return min((time for time in times if time is not None), default=None)

    @property
    def owned(self) -> tuple[int, ...]:
        return () if self.place is None else tuple(sorted(self._own))

    # Registration, sensors, queries.

    def _enter(self, place: Registered, now: int) -> list[Send]:
        self.place = place
        others = [member for member in place.members if member != self.name]
        self.presence = Presence(self.name, self._life, others, self.options.beat, now)
        self.ownership = Ownership(place.home)
        for claim in place.claims:
            self.ownership.offer(claim)
        self.succession = succession(
            self.options.succession, self.name, place.members, self.options.election_timeout
        )
        self.slots = Slots(place.roster)
        for query in place.queries:
            self.slots.adopt(query)
        for query_id, until in place.freed.items():
            self.slots.free(query_id, until)
        self.closing = Closing(self.slots)
        self.custody = Custody(self.slots, self.options.patience)
        self.replication = Replication()
        self.outbox = Outbox(place.group, self.options.resend)
        self.intake = Intake(self.slots, place.guarantee, self.options.most_panes)
        self._firsts: dict[str, int] = {}
        self._parents_down: set[str] = set()
        self._cut_at = now + (self.options.sync or 0)
        self._steady_at = now + self.options.rejoin
        self._own: dict[int, Claim] = {}
        return self._own_changed(now)

    def _hello(self, sender: str, message: SensorHello) -> list[Send]:
        assert self.place is not None
        for sitting in self.slots.roster.sittings:
            if sitting.sensor == message.sensor and sitting.end is None:
                welcome = SensorWelcome(
                    self.place.group,
                    sitting.start,
                    self.ownership.claims,
                    self.place.addresses,
                    self.place.guarantee,
                )
                return [Send(message.sensor, welcome)]
        return [Send(self._root, message)]

    def _seat(self, roster: Roster, now: int) -> list[Send]:
        if not self.slots.seat(roster):
            return []
        sends = []
        for partition, claim in self._own.items():
            self.outbox.drop(partition)
            self.closing.open(partition)
            sends += self._close(claim, now)
        return sends

    def _adopt(self, query: Query) -> list[Send]:
        assert self.place is not None
        if query.id not in self.slots.queries:
            first = self._firsts[query.id] = self.slots.adopt(query)
            self.closing.adopt(self.slots.queries[query.id], first)
        first = self._firsts.get(query.id, 0)
        return [Send(self._root, Adopted(self.place.group, query.id, self.name, first))]

    # Events.

    def _take(self, message: Events, now: int) -> list[Send]:
        claim = self._own.get(message.partition)
        if claim is None:
            return []
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

    def _lost(self, message: Lost, now: int) -> list[Send]:
        claim = self._own.get(message.partition)
        slot = self.slots.get(message.partition, message.sensor)
        if claim is None or slot is None or message.epoch != claim.epoch:
            return []
        sends = self.custody.lost(slot, message, claim, self.presence.members.live, now)
        return sends + self._close(claim, now)

    # Upward.

    def _close(self, claim: Claim, now: int) -> list[Send]:
        for query, pane, partial in self.closing.close(claim):
            self.outbox.put(query, pane, partial)
        return self._send_up(now)

    def _send_up(self, now: int) -> list[Send]:
        assert self.place is not None
        failed = self.presence.members.down
        return self.outbox.send(self.place.parents, self._parents_down, failed, now)

    def _taken(self, sender: str, message: PaneTaken) -> list[Send]:
        self._parents_down.discard(sender)
        self.outbox.taken(sender, message)
        self._free(message.query, message.freed)
        return []

    def _free(self, query: str, until: int) -> None:
        if self.slots.free(query, until):
            self.outbox.free(query, self.slots.queries[query].length, until)

    # Replication.

    def _cut(self) -> list[Send]:
        live = self.presence.members.live
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
        sends = self._offer(message.claims, now)
        for query, until in message.freed.items():
            self._free(query, until)
        for delta in message.slots:
            self.slots.join(delta, message.queries)
        for partition in {delta.partition for delta in message.slots} & self._own.keys():
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

    # Failures and take-overs.

    def _heard(self, sender: str, message: Beat, now: int) -> list[Send]:
        heard = self.presence.heard(sender, message, now)
        if heard is Heard.OLD:
            return []
        if heard is Heard.REBORN:
            self.replication.forget(sender)
        if heard is not Heard.KNOWN:
            self.succession.settled(sender)
        return self._offer(message.claims, now)

    def _failed(self, failed: str, now: int) -> list[Send]:
        if not self.ownership.of(failed):
            return []
        return self._do(self.succession.start(failed, self.presence.members.live, now), now)

    def _orphans(self, now: int) -> list[Send]:
        """Partitions of the dead that nobody has taken, because a taker died or was not told."""
        down = self.presence.members.down
        return [send for failed in down for send in self._failed(failed, now)]

    def _elect(self, sender: str, message: Election | ElectionAck, now: int) -> list[Send]:
        live = self.presence.members.live
        if isinstance(message, Election) and not self.ownership.of(message.failed):
            # It is settled, and the one who asks does not know.
            return [Send(sender, Leader(message.failed, self.name, self.ownership.claims))]
        return self._do(self.succession.receive(sender, message, live, now), now)

    def _do(self, outcome: Outcome, now: int) -> list[Send]:
        sends = [Send(to, message) for to, message in outcome.sends]
        live = self.presence.members.live
        for failed in outcome.won:
            partitions = [
                partition
                for partition in self.ownership.of(failed)
                if self.succession.takes(partition, live)
            ]
            self.takeovers += len(partitions)
            sends += self._claim(failed, partitions, now)
        return sends

    def _claim(self, failed: str, partitions: list[int], now: int) -> list[Send]:
        if not partitions:
            return []
        claims = tuple(self.ownership.take(partition, self.name) for partition in partitions)
        word = Leader(failed, self.name, claims)
        sends = [Send(other, word) for other in self.presence.members.live]
        return sends + self._own_changed(now)

    def _offer(self, claims: tuple[Claim, ...] | list[Claim], now: int) -> list[Send]:
        news = [self.ownership.offer(claim) for claim in claims]
        return self._own_changed(now) if any(news) else []

    def _own_changed(self, now: int) -> list[Send]:
        own = {p: self.ownership.claim(p) for p in self.ownership.of(self.name)}
        before, self._own = self._own, own
        for partition in before.keys() - own.keys():
            self.outbox.drop(partition)
            self.closing.release(partition)
            self.custody.release(partition)
            self.replication.release(partition)
            self._steady_at = now + self.options.rejoin
        sends = []
        for partition in sorted(own):
            if before.get(partition) != own[partition]:
                self.custody.release(partition)
                self.closing.open(partition)
                sends += self.custody.take(own[partition], now)
                sends += self._close(own[partition], now)
        return sends

    def _reinstate(self, sender: str, message: Payload, now: int) -> list[Send]:
        """What was ours at first becomes ours again, once we have what its owner has."""
        if now < self._steady_at or not message.number:
            return []
        theirs = {claim.partition for claim in message.claims if claim.node == sender}
        behind = set()
        for each in message.versions:
            slot = self.slots.get(each.partition, each.sensor)
            if slot is None or slot.offset < each.offset:
                behind.add(each.partition)
        back = [
            partition
            for partition in self.ownership.homes_of(self.name)
            if partition in theirs - behind and self.ownership.owner(partition) == sender
        ]
        self.reinstatements += len(back)
        return self._claim(self.name, back, now)
