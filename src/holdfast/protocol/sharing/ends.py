"""Where tuples come from, and where they end.

A source keeps its tuples until the first operator has passed them on, and does not forget (a log,
a sensor's buffer). A sink is one place, and does not forget what it took. Both do not fail here;
everything between may.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.protocol.sharing.books import Book, Claim
from holdfast.protocol.sharing.ids import TupleId
from holdfast.protocol.sharing.marks import Marks
from holdfast.protocol.sharing.messages import (
    Announce,
    Announced,
    Confirm,
    Deliver,
    Message,
    Missing,
    Packet,
    Request,
    Send,
    View,
)
from holdfast.protocol.sharing.plan import Plan
from holdfast.protocol.sharing.post import Post, Repeats
from holdfast.protocol.sharing.routing import Routing, round_robin
from holdfast.protocol.sharing.rules import Guarantee, Rules
from holdfast.protocol.sharing.tables import BUSY, DeliveryTable, Kept, SharedTable, Standing

__all__ = ["Sink", "Source"]


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
