"""Packets of tuples: batching, fencing, tables and recovery from records.

Who holds the seat of the dead answers for its records. All replicas above are asked, since one of
them may have taken over there as well. When none of them has a tuple, nor anything in hand that it
could come of, it is lost, and counted. (Digest of tuple-delivery, §4, recovery.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.pipeline.machine.sharing.batching import Post
from holdfast.pipeline.machine.sharing.membership import Membership
from holdfast.pipeline.machine.sharing.messages import (
    Confirm,
    Deliver,
    Item,
    Missing,
    Packet,
    Purge,
    Purged,
    Record,
    Recorded,
    Request,
    Send,
    Snapshot,
)
from holdfast.pipeline.machine.sharing.ownership import Book
from holdfast.pipeline.machine.sharing.plan import Guarantee, Routing, Rules, TupleId
from holdfast.pipeline.machine.sharing.tables import BUSY, Holder, Marks, SharedTable, Standing
from holdfast.pipeline.machine.sharing.work import Output, Phase, Watch, Work


class Recovery:
    def __init__(self, me: str, book: Book, table: SharedTable, post: Post) -> None:
        self._me = me
        self._book = book
        self._table = table
        self._post = post
        self.wanted: dict[TupleId, set[str]] = {}
        """What is asked for, and who does not have it."""
        self._due = 0

    def answers_for(self, tuple_id: TupleId) -> str:
        """Who has a pending tuple in hand, or has to see to it."""
        holder = self._table.pending[tuple_id]
        return self._book.heir(holder.replica)

    def look(self, in_hand: Iterable[TupleId]) -> None:
        """Somebody is gone or back: what is to be asked for now?"""
        has = {*in_hand}
        for tuple_id, holder in self._table.pending.items():
            if tuple_id in has or self._book.is_live(*holder):
                continue
            if self._book.heir(holder.replica) == self._me:
                self.wanted.setdefault(tuple_id, set())
                self._due = 0

    def drop(self, tuple_id: TupleId) -> bool:
        """It has come, or is done. Whether it was asked for."""
        return self.wanted.pop(tuple_id, None) is not None

    def missing(self, sender: str, tuple_id: TupleId, above: Iterable[str]) -> bool:
        """One does not have it. Whether nobody has."""
        if tuple_id not in self.wanted:
            return False
        self.wanted[tuple_id].add(sender)
        return {*above} <= self.wanted[tuple_id]

    def ask(self, above: Iterable[str], retry: int, now: int) -> None:
        """Ask, and ask again."""
        if not self.wanted or now < self._due:
            return
        self._due = now + retry
        for name in above:
            for tuple_id in self.wanted:
                self._post.note(name, Request, tuple_id)


# Where the tuples of a replica lie: what each word of a packet means for its tables.
#
# The replica hands it what its neighbours said, and carries away what it has to say. It asks
# membership who is there, and changes nothing there.

Process = Callable[[Any], Sequence[Any]]
"""What comes of a tuple's value. Always the same, of this tuple alone: the state of an operator is
not kept here (the edge replicates partial aggregates)."""


class Desk:
    """`lost`: tuples that two failures in a row on their way have cost. `doubtful`: those of which
    nobody knows any more whether they went on before."""

    def __init__(
        self, members: Membership, process: Process, rules: Rules, routing: Routing, watch: Watch
    ) -> None:
        self.lost = 0
        self.doubtful = 0
        self.table = SharedTable()
        self._members = members
        self._rules = rules
        self._process = process
        self._routing = routing
        self._plan = members.plan
        self._above = self._plan.above(members.operator)
        self._below = self._plan.below(members.operator)
        self._post = Post(members.life_of)
        self.work = Work(
            rules,
            self.table,
            self._post,
            process=self._outputs,
            here=lambda: Holder(members.me, members.life),
            colleagues=members.colleagues,
            sitter=lambda operator, seat: members.books[operator].sitter(seat),
            watch=watch,
        )
        self._recovery = Recovery(members.me, members.own, self.table, self._post)
        self._marks = Marks(self._plan, members.operator, members.books, self.table)
        self._told: dict[str, int] = {}
        self._is_cold = False
        self._unknown: dict[str, int] = {}
        """Up to which tuples of a source nobody here knows what became of them."""

    @property
    def is_busy(self) -> bool:
        return self.work.load > 0 or bool(self._recovery.wanted)

    @property
    def has_post(self) -> bool:
        return not self._post.is_empty

    # What is said.

    def open(self, sender: str, packet: Packet, now: int) -> None:
        if packet.marks:
            self._marks.take(sender, packet.marks)
            if self._is_cold:
                for origin, _ in packet.marks:
                    if origin not in self._unknown and self.table.mark(origin):
                        self._unknown[origin] = self.table.mark(origin)
        for item in packet.items:
            # A guest only listens.
            if self._members.is_active or isinstance(item, Record | Purge):
                self.take(sender, item, now)

    def take(self, sender: str, item: Item, now: int) -> None:
        match item:
            case Deliver():
                self._deliver(item, now)
            case Record():
                self._record(sender, item.ids)
            case Recorded():
                for each in item.ids:
                    if not self.work.answered(sender, each, Phase.RECORDING, now):
                        self._remind_done(sender, each)
            case Purge():
                self._purge(sender, item.ids)
            case Purged():
                for each in item.ids:
                    self.work.answered(sender, each, Phase.PURGING, now)
            case Confirm():
                for each in item.ids:
                    self.work.confirmed(each, item.level, now)
            case Request():
                for each in item.ids:
                    self._look_up(sender, each)
            case Missing():
                self._give_up(sender, item.ids, now)

    def _remind_done(self, sender: str, tuple_id: TupleId) -> None:
        """A colleague has a record of what I do not have in hand: is it done?"""
        if self.table.standing(tuple_id) is Standing.DONE:
            self._post.note(sender, Purge, tuple_id)

    def _deliver(self, item: Deliver, now: int) -> None:
        tuple_id = item.id
        if self._rules.guarantee is Guarantee.AT_MOST_ONCE:
            self.work.pass_through(tuple_id, item.value)
            return
        if tuple_id in self.work.entries:
            self.work.ask_again(tuple_id, item.origin)
            return
        match self.table.standing(tuple_id):
            case Standing.DONE if self._rules.guarantee is Guarantee.AT_LEAST_ONCE:
                # It is done once more, and nobody needs to know.
                self.work.accept(tuple_id, item.value, [item.origin], now)
            case Standing.DONE:
                if tuple_id.number <= self._unknown.get(tuple_id.origin, 0):
                    self.doubtful += 1
                self._post.confirm(item.origin, tuple_id, self._rules.hops)
            case Standing.PENDING:
                who = self._recovery.answers_for(tuple_id)
                if who != self._members.me:
                    self._post.deliver(who, tuple_id, item.value, item.origin)
                    return
                self._recovery.drop(tuple_id)
                self.work.accept(tuple_id, item.value, [item.origin], now)
            case Standing.UNKNOWN if self._has_room(tuple_id):
                self.work.accept(tuple_id, item.value, [item.origin], now)
            case _:
                self._post.confirm(item.origin, tuple_id, BUSY)

    def _has_room(self, tuple_id: TupleId) -> bool:
        """Tuples far ahead of the oldest in hand wait above: that bounds the tables."""
        if self.work.load >= self._rules.capacity:
            return False
        return not self.table.is_far(tuple_id, self._rules.capacity)

    def _outputs(self, tuple_id: TupleId, value: Any) -> list[Output]:
        values = self._process(value)
        ids = tuple_id.derived(len(values) * len(self._below))
        outputs = []
        for at, operator in enumerate(self._below):
            seats = len(self._plan.replicas(operator))
            for each, given in zip(ids[at * len(values) :], values, strict=False):
                outputs.append(Output(each, given, operator, self._routing(each, given, seats)))
        return outputs

    def _record(self, sender: str, ids: Sequence[TupleId]) -> None:
        life = self._members.own.life(sender)
        for each in ids:
            if self.table.is_far(each, 2 * self._rules.capacity):
                continue
            if each not in self.work.entries and life is not None:
                self.table.record(each, Holder(sender, life))
                self._recovery.drop(each)
            self._post.note(sender, Recorded, each)

    def _purge(self, sender: str, ids: Sequence[TupleId]) -> None:
        for each in ids:
            self.table.purge(each)
            self._recovery.drop(each)
            self._post.note(sender, Purged, each)
            self._tell_mark(each.origin)

    def _tell_mark(self, origin: str) -> None:
        """Those below wait for the word of all of us, also of those who have nothing to send."""
        passed = self.table.passed(origin)
        if passed >= self._told.get(origin, 0) + self._rules.capacity // 4:
            self._told[origin] = passed
            for name in self._members.live(self._below):
                self._post.remind(name)

    def _look_up(self, sender: str, tuple_id: TupleId) -> None:
        """One below asks for a tuple. If what it comes of is in hand it will come by itself."""
        kept = self.work.kept.get(tuple_id)
        if kept is not None:
            self._post.deliver(sender, tuple_id, kept.value, self._members.me)
        elif not self.table.is_open(tuple_id):
            self._post.note(sender, Missing, tuple_id)

    def _give_up(self, sender: str, ids: Sequence[TupleId], now: int) -> None:
        above = self._members.live(self._above)
        for each in ids:
            if self._recovery.missing(sender, each, above):
                self._recovery.drop(each)
                if self._rules.hops == 1:
                    self.lost += 1
                else:
                    # Those above forgot it because it was safe below; it may still be.
                    self.doubtful += 1
                self.work.give_up(each, now)

    # Who is there.

    def look(self, now: int) -> None:
        """Somebody has been taken over from, or is back."""
        self._marks.look()
        self.work.look(now)
        self._recovery.look(self.work.entries)
        self._recovery.ask(self._members.live(self._above), self._rules.retry, now)

    def repeat(self, now: int) -> None:
        """Say again what was not answered in time."""
        self.work.look(now)
        self.work.repeat(now)
        self._recovery.ask(self._members.live(self._above), self._rules.retry, now)

    def remind(self) -> None:
        """Say the marks again, and ask for records that have been pending for long."""
        for name in self._members.live(self._below):
            self._post.remind(name)
        for tuple_id in self.table.pending:
            who = self._recovery.answers_for(tuple_id)
            if who != self._members.me:
                self._post.note(who, Recorded, tuple_id)

    def snapshot(self, life: int) -> Snapshot:
        """All that one who comes back in this life has to know."""
        members = self._members
        return Snapshot(
            life,
            tuple(members.view(operator) for operator in members.books),
            tuple((origin, self.table.mark(origin)) for origin in self.table.origins),
            tuple((each, *holder) for each, holder in self.table.pending.items()),
            tuple(self.table.done),
        )

    def merge(self, snapshot: Snapshot, *, is_first: bool) -> None:
        """What a colleague knows. Marks last: what is pending up to them is not done. What was
        pending when I was fenced is settled without me, or they know of it."""
        if is_first:
            self.table.forget_pending()
            self._recovery.wanted.clear()
        for tuple_id in snapshot.purged:
            self.table.purge(tuple_id)
        for tuple_id, replica, life in snapshot.pending:
            self.table.record(tuple_id, Holder(replica, life))
        for origin, mark in snapshot.marks:
            self.table.raise_mark(origin, mark)

    def come_back(self, *, is_alone: bool, now: int) -> None:
        """I hold my seat again: what I still have in hand, and nobody else has, begins anew."""
        self._is_cold = is_alone
        self.work.begin_again(self._is_mine, now)
        self.look(now)

    def _is_mine(self, tuple_id: TupleId) -> bool:
        match self.table.standing(tuple_id):
            case Standing.PENDING:
                return self._recovery.answers_for(tuple_id) == self._members.me
            case Standing.DONE:
                return False
        return True

    def clear_post(self) -> None:
        self._post.drop()

    def flush(self) -> list[Send]:
        members = self._members
        marks = {}
        if members.is_active:
            marks = {origin: self.table.passed(origin) for origin in self.table.origins}
        return self._post.flush(members.claim, marks, members.live(self._below))
