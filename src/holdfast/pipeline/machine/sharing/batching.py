"""Packets of tuples: gathered by receiver, and let through or fenced off.

The same at sources, replicas and sinks. Who has been taken over from is told so by all who know,
and nothing that he still sends has any effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

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
)
from holdfast.pipeline.machine.sharing.ownership import Claim
from holdfast.pipeline.machine.sharing.plan import TupleId

Kind = type[Record] | type[Recorded] | type[Purge] | type[Purged] | type[Request] | type[Missing]
REMEMBERED = 1024


class _Draft:
    """What goes to one receiver."""

    __slots__ = ("confirms", "delivers", "notes")

    def __init__(self) -> None:
        self.delivers: list[Deliver] = []
        self.notes: dict[Kind, dict[TupleId, None]] = {}
        self.confirms: dict[int, dict[TupleId, None]] = {}

    @property
    def items(self) -> tuple[Item, ...]:
        notes = (kind(tuple(ids)) for kind, ids in self.notes.items())
        confirms = (Confirm(level, tuple(ids)) for level, ids in self.confirms.items())
        return (*self.delivers, *notes, *confirms)


class Post:
    """`life_of`: in which life a replica is to be spoken to; None if there is nobody."""

    def __init__(self, life_of: Callable[[str], int | None]) -> None:
        self._life_of = life_of
        self._drafts: dict[str, _Draft] = {}
        self._numbers: dict[str, int] = {}
        self._marked: dict[str, dict[str, int]] = {}

    @property
    def is_empty(self) -> bool:
        return not self._drafts

    def deliver(self, to: str, tuple_id: TupleId, value: Any, origin: str) -> None:
        self._draft(to).delivers.append(Deliver(tuple_id, value, origin))

    def note(self, to: str, kind: Kind, tuple_id: TupleId) -> None:
        self._draft(to).notes.setdefault(kind, {})[tuple_id] = None

    def confirm(self, to: str, tuple_id: TupleId, level: int) -> None:
        self._draft(to).confirms.setdefault(level, {})[tuple_id] = None

    def remind(self, to: str) -> None:
        """Send at least the marks."""
        self._marked.pop(to, None)
        self._draft(to)

    def flush(
        self, claim: Claim, marks: Mapping[str, int], below: Iterable[str] = ()
    ) -> list[Send]:
        """The packets. `marks` go to those `below`, as far as they are new to them."""
        reached = {*below}
        sends = []
        for to, draft in self._drafts.items():
            life = self._life_of(to)
            if life is None:
                continue
            told = self._marked.setdefault(to, {}) if to in reached else {}
            news = tuple(
                (origin, mark)
                for origin, mark in (marks.items() if to in reached else ())
                if mark > told.get(origin, 0)
            )
            told.update(news)
            items = draft.items
            if items or news:
                number = self._numbers[to] = self._numbers.get(to, 0) + 1
                sends.append(Send(to, Packet(claim, life, number, items, news)))
        self._drafts.clear()
        return sends

    def drop(self) -> None:
        self._drafts.clear()

    def _draft(self, to: str) -> _Draft:
        if to not in self._drafts:
            self._drafts[to] = _Draft()
        return self._drafts[to]


class Repeats:
    """Tells packets that have come before. Of those so old that it cannot know it says so too: for
    at most once that is right, and the other guarantees have tables."""

    def __init__(self) -> None:
        self._life: dict[str, int] = {}
        self._seen: dict[str, set[int]] = {}
        self._top: dict[str, int] = {}

    def is_new(self, sender: str, life: int, number: int) -> bool:
        if self._life.get(sender) != life:
            self._life[sender] = life
            self._seen[sender] = set()
            self._top[sender] = 0
        seen, top = self._seen[sender], self._top[sender]
        if number in seen or number <= top - REMEMBERED:
            return False
        seen.add(number)
        self._top[sender] = max(top, number)
        if len(seen) > 2 * REMEMBERED:
            floor = self._top[sender] - REMEMBERED
            self._seen[sender] = {each for each in seen if each > floor}
        return True
