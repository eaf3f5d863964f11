"""A replica that shares the work of an operator with its colleagues: events in, packets out.

Membership says who is there, the desk has the tuples; this lets packets through or fences them off.
The shell and the simulator carry what it says, and wake it when it is due.
"""

from __future__ import annotations

from holdfast.protocol.sharing.desk import Desk, Process
from holdfast.protocol.sharing.ids import TupleId
from holdfast.protocol.sharing.membership import Membership
from holdfast.protocol.sharing.messages import (
    Announce,
    Join,
    Message,
    Packet,
    Ping,
    Pong,
    Purged,
    Recorded,
    Send,
    Snapshot,
    TakeOver,
    View,
)
from holdfast.protocol.sharing.plan import Plan
from holdfast.protocol.sharing.post import Repeats
from holdfast.protocol.sharing.routing import Routing, round_robin
from holdfast.protocol.sharing.rules import Guarantee, Rules
from holdfast.protocol.sharing.work import Step, Watch

__all__ = ["Replica"]


def _watch_nothing(step: Step, tuple_id: TupleId) -> None:
    pass


class Replica:
    """`life`: 0 at the first start of all, larger at each start after."""

    def __init__(
        self,
        me: str,
        plan: Plan,
        process: Process,
        rules: Rules,
        *,
        routing: Routing = round_robin,
        life: int = 0,
        now: int = 0,
        watch: Watch = _watch_nothing,
    ) -> None:
        self.me = me
        self.plan = plan
        self.rules = rules
        self.refused = 0
        """Packets of those who had been taken over from."""
        self.members = Membership(me, plan, rules, life, now)
        self.desk = Desk(self.members, process, rules, routing, watch)
        self._repeats = Repeats()
        self._is_once = rules.guarantee is Guarantee.AT_MOST_ONCE
        self._next_repeat = now
        self._next_reminder = now
        self._next_flush: int | None = None

    def receive(self, sender: str, message: Message, now: int) -> list[Send]:
        members = self.members
        if not self.plan.knows(sender) or self.plan.of(sender) not in members.books:
            return []
        sends: list[Send] = []
        match message:
            case Packet():
                sends += self._open(sender, message, now)
            case Join():
                if members.welcome(sender, message.life, now):
                    sends.append(Send(sender, self.desk.snapshot(message.life)))
            case Snapshot():
                self._meet(sender, message, now)
            case View():
                self._learn(message, now)
            case _:
                if isinstance(message, Ping | Pong | TakeOver):
                    self._learn(View(members.operator, message.claims), now)
                elif isinstance(message, Announce):
                    self._learn(message.view, now)
                before = members.own.claims
                sends += members.receive(sender, message, now)
                if members.own.claims != before:
                    self._look(now)
        return [*sends, *self._flush(now)]

    def wake(self, now: int) -> list[Send]:
        members = self.members
        if not members.is_active:
            self._return(now)
            if not members.is_active:
                return [*members.join(now), *self._flush(now)]
        before = members.own.claims
        sends = members.wake(now)
        if members.own.claims != before:
            self._look(now)
        if now >= self._next_repeat:
            self._next_repeat = now + self.rules.retry
            self.desk.repeat(now)
        if now >= self._next_reminder:
            self._next_reminder = now + self.rules.nudge
            self.desk.remind()
            sends += members.repeat()
        return [*sends, *self._flush(now)]

    def due(self, now: int) -> int:
        """When to wake it next."""
        due = self.members.due
        if self._next_flush is not None:
            due = min(due, self._next_flush)
        if not self.members.is_active:
            return due
        if self.desk.is_busy:
            due = min(due, self._next_repeat)
        return min(due, self._next_reminder)

    def _open(self, sender: str, packet: Packet, now: int) -> list[Send]:
        """Let through what comes from one who holds his seat, for me as I am now."""
        members = self.members
        operator = self.plan.of(sender)
        if packet.claim.epoch < 0 and members.is_guest(sender, packet.claim.life):
            for item in packet.items:
                if isinstance(item, Recorded | Purged):
                    self.desk.take(sender, item, now)
            return []
        if packet.claim < members.books[operator].home(sender):
            self.refused += 1
            return [Send(sender, members.view(operator))]
        if members.books[operator].learn_home(packet.claim):
            members.settle()
            self._look(now)
        if packet.to != members.life:
            is_late = members.is_active and packet.to < members.life
            return [Send(sender, members.view(members.operator))] if is_late else []
        life = packet.claim.life
        if not self._is_once or self._repeats.is_new(sender, life, packet.number):
            self.desk.open(sender, packet, now)
        return []

    def _learn(self, view: View, now: int) -> None:
        if self.members.learn(view):
            self._look(now)

    def _look(self, now: int) -> None:
        """Somebody has been taken over from, or is back; perhaps it was I."""
        if self.members.is_fenced:
            self.members.fence(now)
            self.desk.clear_post()
        if self.members.is_active and not self._is_once:
            self.desk.look(now)

    def _meet(self, sender: str, snapshot: Snapshot, now: int) -> None:
        if self.members.is_active or snapshot.life != self.members.life:
            return
        for view in snapshot.views:
            self.members.learn(view)
        self.desk.merge(snapshot, is_first=self.members.is_alone)
        self.members.met(sender, now)
        self._return(now)

    def _return(self, now: int) -> None:
        """Take my seat again when I know enough."""
        if self.members.may_return(now):
            self.members.come_back(now)
            self.desk.come_back(is_alone=self.members.is_alone, now=now)

    def _flush(self, now: int) -> list[Send]:
        if not self.desk.has_post:
            self._next_flush = None
            return []
        if self.rules.linger:
            if self._next_flush is None:
                self._next_flush = now + self.rules.linger
            if now < self._next_flush:
                return []
        self._next_flush = None
        return self.desk.flush()
