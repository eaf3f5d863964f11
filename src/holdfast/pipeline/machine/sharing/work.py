"""Tuples in hand of a replica: steps 1 to 8 of the digest (tuple-delivery, section 4).

Every step waits for the answers to the one before, and is repeated until they have come. Work does
not know who is alive; it is told whom to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from holdfast.pipeline.machine.sharing.batching import Post
from holdfast.pipeline.machine.sharing.messages import Purge, Record
from holdfast.pipeline.machine.sharing.plan import Rules, TupleId
from holdfast.pipeline.machine.sharing.tables import DeliveryTable, Holder, Kept, SharedTable


class Step(Enum):
    """What has been done with a tuple."""

    RECEIVED = 1
    KEPT = 2
    NOTED = 3
    RECORDED = 4
    SENT_ON = 5
    CONFIRMED = 6
    PURGED = 7
    TOLD = 8


Watch = Callable[[Step, TupleId], None]
"""Told of every step, for measuring and for the simulator."""


class Phase(Enum):
    RECORDING = "recording"
    PASSING = "passing"
    PURGING = "purging"


@dataclass(frozen=True, slots=True)
class Output:
    """A tuple that came of another, and the seat it is for."""

    id: TupleId
    value: Any
    operator: str
    seat: int


@dataclass(slots=True)
class Entry:
    """One tuple in hand. `levels`: how far each of its outputs is safe."""

    id: TupleId
    value: Any
    origins: set[str]
    waiting: set[str]
    due: int
    phase: Phase = Phase.RECORDING
    level: int = -1
    levels: dict[TupleId, int] = field(default_factory=dict)


class Work:
    """`process`: the outputs of a tuple, always the same. `here`: who I am, and in which life.
    `colleagues`: whom to wait for at this time. `sitter`: who sits in a seat."""

    def __init__(
        self,
        rules: Rules,
        table: SharedTable,
        post: Post,
        *,
        process: Callable[[TupleId, Any], Sequence[Output]],
        here: Callable[[], Holder],
        colleagues: Callable[[int], set[str]],
        sitter: Callable[[str, int], str],
        watch: Watch,
    ) -> None:
        self.kept = DeliveryTable(rules)
        self.entries: dict[TupleId, Entry] = {}
        self._rules = rules
        self._table = table
        self._post = post
        self._process = process
        self._here = here
        self._colleagues = colleagues
        self._sitter = sitter
        self._watch = watch

    @property
    def load(self) -> int:
        return len(self.entries) + len(self.kept)

    def accept(self, tuple_id: TupleId, value: Any, origins: Iterable[str], now: int) -> None:
        """Steps 1 to 4: the tuple is mine, and all colleagues are to know."""
        self._watch(Step.RECEIVED, tuple_id)
        due = now + self._rules.retry
        entry = Entry(tuple_id, value, {*origins}, self._colleagues(now), due)
        self.entries[tuple_id] = entry
        self._watch(Step.KEPT, tuple_id)
        self._table.record(tuple_id, self._here())
        self._watch(Step.NOTED, tuple_id)
        self._ask(entry)
        self._watch(Step.RECORDED, tuple_id)
        self._go_on(entry, now)

    def pass_through(self, tuple_id: TupleId, value: Any) -> None:
        """At most once: no more than steps 1 and 5, and nothing is kept."""
        self._watch(Step.RECEIVED, tuple_id)
        for each in self._process(tuple_id, value):
            to = self._sitter(each.operator, each.seat)
            self._post.deliver(to, each.id, each.value, self._here().replica)
        self._watch(Step.SENT_ON, tuple_id)

    def ask_again(self, tuple_id: TupleId, origin: str) -> None:
        """Its origin has sent it once more: say how far it is."""
        entry = self.entries[tuple_id]
        entry.origins.add(origin)
        if entry.level >= 0:
            self._post.confirm(origin, tuple_id, entry.level)

    def answered(self, name: str, tuple_id: TupleId, phase: Phase, now: int) -> bool:
        """A colleague has recorded or purged it. False if it is not in hand."""
        entry = self.entries.get(tuple_id)
        if entry is None:
            return False
        if entry.phase is phase:
            entry.waiting.discard(name)
            self._go_on(entry, now)
        return True

    def look(self, now: int) -> None:
        """Some colleagues may be gone: nobody waits for them."""
        colleagues = self._colleagues(now)
        for entry in list(self.entries.values()):
            if not entry.waiting <= colleagues:
                entry.waiting &= colleagues
                self._go_on(entry, now)

    def confirmed(self, tuple_id: TupleId, level: int, now: int) -> None:
        """Step 6: an output is safe so far."""
        kept = self.kept.confirm(tuple_id, level, now)
        entry = None if kept is None else self.entries.get(kept.parent)
        if entry is None or entry.phase is not Phase.PASSING or tuple_id not in entry.levels:
            return
        entry.levels[tuple_id] = level
        self._watch(Step.CONFIRMED, entry.id)
        self._advance(entry, now)

    def give_up(self, tuple_id: TupleId, now: int) -> None:
        """Nobody has it any more: let all forget it."""
        entry = Entry(tuple_id, None, set(), set(), now, Phase.PASSING)
        self.entries[tuple_id] = entry
        self._purge(entry, now)

    def begin_again(self, is_mine: Callable[[TupleId], bool], now: int) -> None:
        """In a new life: the records of the old one count no more."""
        before, self.entries = self.entries, {}
        for entry in before.values():
            if entry.phase is Phase.PURGING:
                self.entries[entry.id] = entry
                self._purge(entry, now)
            elif is_mine(entry.id):
                self.accept(entry.id, entry.value, entry.origins, now)

    def repeat(self, now: int) -> None:
        """Say again what was not answered in time."""
        for entry in self.entries.values():
            if entry.waiting and entry.due <= now:
                entry.due = now + self._rules.retry
                self._ask(entry)
        for kept in self.kept.overdue(now):
            self.send(kept)

    def send(self, kept: Kept) -> None:
        to = self._sitter(kept.operator, kept.seat)
        self._post.deliver(to, kept.id, kept.value, self._here().replica)

    def _ask(self, entry: Entry) -> None:
        kind = Record if entry.phase is Phase.RECORDING else Purge
        for name in sorted(entry.waiting):
            self._post.note(name, kind, entry.id)

    def _go_on(self, entry: Entry, now: int) -> None:
        if entry.waiting or self.entries.get(entry.id) is not entry:
            return
        if entry.phase is Phase.RECORDING:
            self._confirm(entry, 0)
            self._pass_on(entry, now)
        elif entry.phase is Phase.PURGING:
            del self.entries[entry.id]
            self._confirm(entry, self._rules.hops)
            self._watch(Step.TOLD, entry.id)

    def _pass_on(self, entry: Entry, now: int) -> None:
        """Step 5."""
        entry.phase = Phase.PASSING
        outputs = self._process(entry.id, entry.value)
        for each in outputs:
            kept = self.kept.get(each.id)
            if kept is None:
                due = now + self._rules.retry
                kept = Kept(each.id, each.value, each.operator, each.seat, entry.id, due)
                self.kept.keep(kept)
            entry.levels[each.id] = kept.level
            self.send(kept)
        self._watch(Step.SENT_ON, entry.id)
        self._advance(entry, now)

    def _advance(self, entry: Entry, now: int) -> None:
        level = min(entry.levels.values(), default=self._rules.hops) + 1
        if level >= self._rules.hops:
            self._purge(entry, now)
        elif level > entry.level:
            self._confirm(entry, level)

    def _purge(self, entry: Entry, now: int) -> None:
        """Step 7."""
        entry.phase = Phase.PURGING
        entry.waiting = self._colleagues(now)
        entry.due = now + self._rules.retry
        self._table.purge(entry.id)
        self._ask(entry)
        self._watch(Step.PURGED, entry.id)
        self._go_on(entry, now)

    def _confirm(self, entry: Entry, level: int) -> None:
        entry.level = max(entry.level, level)
        for origin in sorted(entry.origins):
            self._post.confirm(origin, entry.id, level)
