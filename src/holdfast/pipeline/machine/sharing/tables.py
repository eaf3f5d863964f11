"""Delivery tables: tuples in hand, tuples kept for those below, and watermarks.

A replica says up to which tuple all that its operator makes of them is known below: as far as it
can see. The least that any live one of them says is right, whatever one that came back has missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

from holdfast.pipeline.machine.sharing.ownership import Book
from holdfast.pipeline.machine.sharing.plan import Plan, Rules, TupleId

# The tables: which tuples a colleague has in hand, and what is kept for those below.
#
# The shared table would grow for ever with what is done. So it forgets what is not above the mark
# of its source: up to there the operators above have nothing to hand over that is not known here. A
# tuple up to the mark that is in no table is therefore done. (Digest of tuple-delivery, §4, gaps.)

BUSY: Final = -1
"""A level: there was no room, try again soon."""


class Holder(NamedTuple):
    """Who has a tuple in hand, and in which life."""

    replica: str
    life: int


class Standing(Enum):
    """What is known of a tuple."""

    UNKNOWN = "unknown"
    PENDING = "pending"
    DONE = "done"


class _Origin:
    """What is known of one source's tuples."""

    __slots__ = ("done", "heap", "mark", "pending")

    def __init__(self) -> None:
        self.mark = 0
        self.done: dict[int, set[tuple[int, ...]]] = {}
        self.pending: dict[int, int] = {}
        self.heap: list[int] = []

    def add(self, number: int) -> None:
        if number not in self.pending:
            heappush(self.heap, number)
        self.pending[number] = self.pending.get(number, 0) + 1

    def remove(self, number: int) -> None:
        left = self.pending[number] - 1
        if left:
            self.pending[number] = left
        else:
            del self.pending[number]

    @property
    def passed(self) -> int:
        while self.heap and self.heap[0] not in self.pending:
            heappop(self.heap)
        return min(self.mark, self.heap[0] - 1) if self.heap else self.mark


class SharedTable:
    """Records of an operator's tuples; the same at all colleagues, a little later."""

    def __init__(self) -> None:
        self.pending: dict[TupleId, Holder] = {}
        self._origins: dict[str, _Origin] = {}
        self._done = 0

    def __len__(self) -> int:
        return len(self.pending) + self._done

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(self._origins)

    def standing(self, tuple_id: TupleId) -> Standing:
        if tuple_id in self.pending:
            return Standing.PENDING
        known = self._origins.get(tuple_id.origin)
        if known is None:
            return Standing.UNKNOWN
        if tuple_id.number <= known.mark:
            return Standing.DONE
        is_done = tuple_id.path in known.done.get(tuple_id.number, ())
        return Standing.DONE if is_done else Standing.UNKNOWN

    def is_far(self, tuple_id: TupleId, capacity: int) -> bool:
        """Whether it is so far ahead of what is passed that to remember it would cost too much."""
        return tuple_id.number > self.passed(tuple_id.origin) + capacity

    def record(self, tuple_id: TupleId, holder: Holder) -> None:
        """It is in hand there; what is done stays done."""
        if tuple_id not in self.pending:
            if self.standing(tuple_id) is Standing.DONE:
                return
            self._origin(tuple_id.origin).add(tuple_id.number)
        self.pending[tuple_id] = holder

    def purge(self, tuple_id: TupleId) -> None:
        known = self._origin(tuple_id.origin)
        if self.pending.pop(tuple_id, None) is not None:
            known.remove(tuple_id.number)
        if tuple_id.number > known.mark:
            paths = known.done.setdefault(tuple_id.number, set())
            self._done -= len(paths)
            paths.add(tuple_id.path)
            self._done += len(paths)

    def forget_pending(self) -> None:
        for tuple_id in self.pending:
            self._origins[tuple_id.origin].remove(tuple_id.number)
        self.pending.clear()

    def is_open(self, tuple_id: TupleId) -> bool:
        """Whether anything that came of the same tuple of the source is pending."""
        known = self._origins.get(tuple_id.origin)
        return known is not None and tuple_id.number in known.pending

    def raise_mark(self, origin: str, mark: int) -> None:
        """Up to here all tuples of the source that can come are in the table, or are done."""
        known = self._origin(origin)
        if mark <= known.mark:
            return
        # Whichever is shorter: a mark that leaps is no reason to count up to it.
        numbers = range(known.mark + 1, mark + 1)
        past = numbers if len(numbers) < len(known.done) else [n for n in known.done if n <= mark]
        for number in past:
            self._done -= len(known.done.pop(number, ()))
        known.mark = mark

    def mark(self, origin: str) -> int:
        return self._origins[origin].mark if origin in self._origins else 0

    def passed(self, origin: str) -> int:
        """Up to here all that came of the source's tuples is safe with the operators below."""
        return self._origins[origin].passed if origin in self._origins else 0

    @property
    def done(self) -> Iterator[TupleId]:
        """Those above the marks."""
        for origin, known in self._origins.items():
            for number, paths in known.done.items():
                yield from (TupleId(origin, number, path) for path in paths)

    def _origin(self, name: str) -> _Origin:
        return self._origins.setdefault(name, _Origin())


@dataclass(slots=True)
class Kept:
    """A tuple that is kept for who got it: he, or who takes over from him, may ask for it."""

    id: TupleId
    value: Any
    operator: str
    seat: int
    parent: TupleId
    due: int
    level: int = BUSY
    tries: int = 1


class DeliveryTable:
    """What has been sent on and may be needed again."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._kept: dict[TupleId, Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Kept]:
        return iter(self._kept.values())

    @property
    def oldest(self) -> TupleId | None:
        return next(iter(self._kept), None)

    def get(self, tuple_id: TupleId) -> Kept | None:
        return self._kept.get(tuple_id)

    def keep(self, kept: Kept) -> None:
        self._kept[kept.id] = kept

    def confirm(self, tuple_id: TupleId, level: int, now: int) -> Kept | None:
        """A tuple is safe so many operators further down; dropped if that is enough. None if it is
        no news."""
        kept = self._kept.get(tuple_id)
        if kept is not None and level == BUSY:
            kept.tries = 1
            kept.due = min(kept.due, now + self._rules.retry)
        if kept is None or level <= kept.level:
            return None
        kept.level = level
        kept.due = now + self._rules.nudge
        if level >= self._rules.hops:
            del self._kept[tuple_id]
        return kept

    def overdue(self, now: int) -> list[Kept]:
        """What was not answered in time, to be sent again."""
        found = [each for each in self._kept.values() if each.due <= now]
        for each in found:
            # Twice as long each time: who answers slowly is not to be drowned.
            pause = min(self._rules.retry << each.tries, self._rules.nudge)
            each.tries = min(each.tries + 1, 16)
            each.due = now + (pause if each.level < 0 else self._rules.nudge)
        return found


class Marks:
    """Raises the marks of a table by what those above say."""

    def __init__(
        self, plan: Plan, operator: str, books: Mapping[str, Book], table: SharedTable
    ) -> None:
        self._plan = plan
        self._books = books
        self._table = table
        self._above = {
            origin: tuple(each for each in plan.above(operator) if origin in plan.origins[each])
            for origin in plan.origins[operator]
        }
        self._said: dict[str, dict[str, int]] = {}

    def take(self, sender: str, marks: Iterable[tuple[str, int]]) -> None:
        said = self._said.setdefault(sender, {})
        for origin, mark in marks:
            if origin in self._above and mark > said.get(origin, 0):
                said[origin] = mark
                self._raise(origin)

    def look(self) -> None:
        """Somebody above has been taken over from, or is back."""
        for origin in self._above:
            self._raise(origin)

    def _raise(self, origin: str) -> None:
        least = min(
            self._said.get(name, {}).get(origin, 0)
            for operator in self._above[origin]
            for name in self._speakers(operator, origin)
        )
        self._table.raise_mark(origin, least)

    def _speakers(self, operator: str, origin: str) -> tuple[str, ...]:
        if self._plan.of(origin) == operator:
            return (origin,)
        return self._books[operator].live or self._books[operator].replicas
