"""A replica that shares the work of an operator: events in, packets out.

Membership says who is there, the desk has the tuples; this lets packets through or fences them off.
The shell and the simulator carry what it says, and wake it when it is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.pipeline.machine.sharing.batching import Post, Repeats
from holdfast.pipeline.machine.sharing.membership import Membership
from holdfast.pipeline.machine.sharing.messages import (
    Announce,
    Announced,
    Confirm,
    Deliver,
    Join,
    Message,
    Missing,
    Packet,
    Ping,
    Pong,
    Purged,
    Recorded,
    Request,
    Send,
    Snapshot,
    TakeOver,
    View,
)
from holdfast.pipeline.machine.sharing.ownership import Book, Claim
from holdfast.pipeline.machine.sharing.plan import (
    Guarantee,
    Plan,
    Routing,
    Rules,
    TupleId,
    round_robin,
)
from holdfast.pipeline.machine.sharing.tables import (
    BUSY,
    DeliveryTable,
    Kept,
    Marks,
    SharedTable,
    Standing,
)
from holdfast.pipeline.machine.sharing.tuple_tables import Desk, Process
from holdfast.pipeline.machine.sharing.work import Step, Watch

# Where tuples come from, and where they end.
#
# A source keeps its tuples until the first operator has passed them on, and does not forget (a log,
# a sensor's buffer). A sink is one place, and does not forget what it took. Both do not fail here;
# everything between may.


class _Border:
    """The books of one who cannot be taken over from, and the fence before him."""

    def __init__(self, me: str, plan: Plan) -> None:
        self.me = me
        self.plan = plan
        self.books = {name: Book(plan.replicas(name)) for name in plan.near(plan.of(me))}
        self.claim = Claim(0, me, 0)
        self.refused = 0

    def life_of(self, name: str) -> int | None:
        return self.books[self.plan.of(name)].life(name)

    def live(self, operators: Sequence[str]) -> list[str]:
        return [name for each in operators for name in self.books[each].live]

    def learn(self, sender: str, message: Message) -> tuple[bool, list[Send]]:
        """Whether it is a packet to be opened, and the answer if it is not."""
        operator = self.plan.of(sender) if self.plan.knows(sender) else None
        if operator is None or operator not in self.books:
            return False, []
        match message:
            case View():
                self._note(message)
            case Announce():
                self._note(message.view)
                return False, [Send(sender, Announced(message.number))]
            case Packet():
                book = self.books[operator]
                if message.claim < book.home(sender):
                    self.refused += 1
                    return False, [Send(sender, View(operator, book.claims))]
                book.learn_home(message.claim)
                return True, []
        return False, []

    def _note(self, view: View) -> None:
        book = self.books.get(view.operator)
        if book is not None and len(view.claims) == len(book.replicas):
            book.learn(view.claims)


class Source:
    """Numbers tuples and hands them to the operators below."""

    def __init__(
        self, me: str, plan: Plan, rules: Rules, *, routing: Routing = round_robin, now: int = 0
    ) -> None:
        self.me = me
        self.rules = rules
        self.sent = 0
        """The number of the last tuple."""
        self.kept = DeliveryTable(rules)
        self._border = _Border(me, plan)
        self._below = plan.below(plan.of(me))
        self._post = Post(self._border.life_of)
        self._routing = routing
        self._next_repeat = now
        self._next_reminder = now

    @property
    def mark(self) -> int:
        """All tuples up to this one are safe below."""
        oldest = self.kept.oldest
        return self.sent if oldest is None else oldest.number - 1

    @property
    def has_room(self) -> bool:
        """Whether it takes another tuple now."""
        return self.sent - self.mark < self.rules.capacity

    def emit(self, value: Any, now: int) -> list[Send]:
        """Hand over one tuple. Only with room; at most once always has it."""
        self.sent += 1
        parent = TupleId(self.me, self.sent)
        for tuple_id, operator in zip(parent.derived(len(self._below)), self._below, strict=True):
            seats = len(self._border.plan.replicas(operator))
            seat = self._routing(tuple_id, value, seats)
            kept = Kept(tuple_id, value, operator, seat, parent, now + self.rules.retry)
            if self.rules.guarantee is not Guarantee.AT_MOST_ONCE:
                self.kept.keep(kept)
            self._send(kept)
        return self._flush()

    def receive(self, sender: str, message: Message, now: int) -> list[Send]:
        is_open, sends = self._border.learn(sender, message)
        if is_open and isinstance(message, Packet):
            for item in message.items:
                if isinstance(item, Confirm):
                    for each in item.ids:
                        self.kept.confirm(each, item.level, now)
                elif isinstance(item, Request):
                    for each in item.ids:
                        self._look_up(sender, each)
        return [*sends, *self._flush()]

    def wake(self, now: int) -> list[Send]:
        if now >= self._next_repeat:
            self._next_repeat = now + self.rules.retry
            for kept in self.kept.overdue(now):
                self._send(kept)
        if now >= self._next_reminder:
            self._next_reminder = now + self.rules.nudge
            for name in self._border.live(self._below):
                self._post.remind(name)
        return self._flush()

    def due(self, now: int) -> int:
        return min(self._next_repeat, self._next_reminder) if self.kept else self._next_reminder

    def _look_up(self, sender: str, tuple_id: TupleId) -> None:
        kept = self.kept.get(tuple_id)
        if kept is None:
            self._post.note(sender, Missing, tuple_id)
        else:
            self._post.deliver(sender, tuple_id, kept.value, self.me)

    def _send(self, kept: Kept) -> None:
        to = self._border.books[kept.operator].sitter(kept.seat)
        self._post.deliver(to, kept.id, kept.value, self.me)

    def _flush(self) -> list[Send]:
        marks = {} if self.rules.guarantee is Guarantee.AT_MOST_ONCE else {self.me: self.mark}
        return self._post.flush(self._border.claim, marks, self._border.live(self._below))


class Sink:
    """Takes what comes, and filters it if each tuple is to come once."""

    def __init__(self, me: str, plan: Plan, rules: Rules) -> None:
        self.me = me
        self.rules = rules
        self.table = SharedTable()
        self._border = _Border(me, plan)
        self._marks = Marks(plan, plan.of(me), self._border.books, self.table)
        self._post = Post(self._border.life_of)
        self._repeats = Repeats()
        self._taken: list[tuple[TupleId, Any]] = []

    @property
    def refused(self) -> int:
        return self._border.refused

    def drain(self) -> list[tuple[TupleId, Any]]:
        """What has been taken since the last time. A shell calls it, and makes it safe, before it
        sends what `receive` answered."""
        taken, self._taken = self._taken, []
        return taken

    def receive(self, sender: str, message: Message, now: int) -> list[Send]:
        is_open, sends = self._border.learn(sender, message)
        if is_open and isinstance(message, Packet) and self._is_new(sender, message):
            for item in message.items:
                if isinstance(item, Deliver):
                    self._take(item)
            self._marks.take(sender, message.marks)
        return [*sends, *self._post.flush(self._border.claim, {})]

    def wake(self, now: int) -> list[Send]:
        return []

    def due(self, now: int) -> None:
        return None

    def _is_new(self, sender: str, packet: Packet) -> bool:
        if self.rules.guarantee is not Guarantee.AT_MOST_ONCE:
            return True
        return self._repeats.is_new(sender, packet.claim.life, packet.number)

    def _take(self, item: Deliver) -> None:
        if self.rules.guarantee is Guarantee.EXACTLY_ONCE:
            if self.table.is_far(item.id, 2 * self.rules.capacity):
                self._post.confirm(item.origin, item.id, BUSY)
                return
            if self.table.standing(item.id) is Standing.UNKNOWN:
                self._taken.append((item.id, item.value))
                self.table.purge(item.id)
        else:
            self._taken.append((item.id, item.value))
        if self.rules.guarantee is not Guarantee.AT_MOST_ONCE:
            self._post.confirm(item.origin, item.id, self.rules.hops)


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
