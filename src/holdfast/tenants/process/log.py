"""The log: every update and every change of a document, in one order.

Nothing is acknowledged before it is in it, and all else can be made from it again.

One process writes it. Publications of several threads that come at once are committed together.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.errors import ConflictError, TenantError
from holdfast.tenants.process.store.database import Database, Work, rows_among

SHORT_RUN: Final = 50
"""Positions that are not worth a statement of their own."""
_ENTRIES: Final = "SELECT position, kind, path, number, timestamp, partition_key, body FROM log"


class Entry(NamedTuple):
    """As it is in the log."""

    position: int
    kind: str
    path: str
    number: int
    timestamp: int
    key: str
    body: str


@dataclass(frozen=True, slots=True)
class Publication:
    """An update of a simple stream that is to be taken in."""

    path: str
    timestamp: int
    values: dict[str, Any]
    key: str = ""
    offset: int | None = None
    """Given by a publisher that counts by itself, so that it can say the same again."""


@dataclass(frozen=True, slots=True)
class Receipt:
    offset: int
    position: int
    duplicate: bool = False
    """It was there already, and is not there twice now."""


class OutdatedError(TenantError):
    """A document was changed since the publications were checked against it."""

    status = 503


@dataclass
class _Waiting:
    publications: Sequence[Publication]
    checked: int | None = None
    """How far changes went when they were checked."""
    receipts: list[Receipt] = field(default_factory=list)
    failure: Exception | None = None
    done: bool = False


class Log:
    """The only one who writes the log of this database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turn = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._end = int(database.rows("SELECT coalesce(max(position), 0) FROM log")[0][0])
        self._changed = self._end
        self._numbers: dict[str, int] = {}

    @property
    def changed(self) -> int:
        """The position of the last change of a document, or of one before this began."""
        return self._changed

    @property
    def end(self) -> int:
        return self._end

    def append(
        self, publications: Sequence[Publication], checked: int | None = None
    ) -> list[Receipt]:
        """All of them or none; returns when they are safe. Raises `OutdatedError` if documents have
        changed since the change that they were `checked` at."""
        mine = _Waiting(publications, checked)
        self._waiting.append(mine)
        with self._turn:
            if not mine.done:
                self._commit_waiting()
        if mine.failure is not None:
            raise mine.failure
        return mine.receipts

    def change(self, path: str, body: bytes, work: Work) -> int:
        """The position of a change that is part of a transaction; `with log.turn()` around it."""
        position = self._end + 1
        _insert(work, [(position, "change", path, position, 0, "", body.decode())])
        return position

    def turn(self) -> threading.Lock:
        """To be held from `change` until its transaction is committed and `moved` was called."""
        return self._turn

    def moved(self, position: int, *, changed: bool = False) -> None:
        self._end = position
        if changed:
            self._changed = position
            # A stream that was calculated until now goes on with another offset.
            self._numbers.clear()

    def _commit_waiting(self) -> None:
        group = []
        while self._waiting:
            group.append(self._waiting.popleft())
        try:
            self._commit(group)
        except TenantError:
            # One of them cannot be taken; the others do not suffer for it.
            for each in group:
                try:
                    self._commit([each])
                except Exception as error:
                    each.failure = error
        except Exception as error:
            for each in group:
                each.failure = error
        for each in group:
            each.done = True

    def _commit(self, group: Sequence[_Waiting]) -> None:
        position = self._end
        rows: list[tuple[Any, ...]] = []
        receipts: list[list[Receipt]] = []
        numbers: dict[str, int] = {}
        with self._database.transaction() as work:
            for each in group:
                if each.checked is not None and each.checked != self._changed:
                    raise OutdatedError("documents are changing; publish it again")
                got = []
                for publication in each.publications:
                    known = self._known(work, publication, numbers, rows)
                    if known is None:
                        position += 1
                        number = self._number(work, publication, numbers)
                        rows.append(_row(position, number, publication))
                        known = Receipt(number, position)
                    got.append(known)
                receipts.append(got)
            _insert(work, rows)
        self._numbers.update(numbers)
        for each, got in zip(group, receipts, strict=True):
            each.receipts = got
        self.moved(position)

    def _number(self, work: Work, publication: Publication, numbers: dict[str, int]) -> int:
        number = publication.offset
        if number is None:
            number = self._following(work, publication.path, numbers)
        numbers[publication.path] = number + 1
        return number

    def _following(self, work: Work, path: str, numbers: dict[str, int]) -> int:
        if path in numbers:
            return numbers[path]
        if path not in self._numbers:
            self._numbers[path] = following_numbers(work, [path], self._end).get(path, 0)
        return self._numbers[path]

    def _known(
        self,
        work: Work,
        publication: Publication,
        numbers: dict[str, int],
        rows: Iterable[tuple[Any, ...]],
    ) -> Receipt | None:
        """What is there already under the offset that a publisher gave."""
        number = publication.offset
        if number is None or number >= self._following(work, publication.path, numbers):
            return None
        mine = _row(0, number, publication)
        stored = [row for row in rows if row[2:4] == mine[2:4]] or work.rows(
            "SELECT position, kind, path, number, timestamp, partition_key, body FROM log "
            "WHERE path = ? AND number = ?",
            (publication.path, number),
        )
        if not stored or tuple(stored[0])[2:] != mine[2:]:
            raise ConflictError(
                f"offset: {number} of {publication.path} is taken or passed; "
                f"the next one is {self._following(work, publication.path, numbers)}"
            )
        return Receipt(number, int(stored[0][0]), duplicate=True)


def following_numbers(database: Database | Work, paths: Sequence[str], end: int) -> dict[str, int]:
    """The next offset of streams that have had some, whether published or calculated: offsets go on
    when a stream becomes the other."""
    found: dict[str, int] = {}
    for statement, values in (
        ("SELECT path, following FROM numbers WHERE path IN (@)", ()),
        (
            "SELECT path, max(number) + 1 FROM log WHERE position <= ? AND path IN (@) "
            "GROUP BY path",
            (end,),
        ),
    ):
        for path, following in rows_among(database, statement, paths, values):
            found[path] = max(found.get(path, 0), int(following))
    return found


def read_runs(database: Database | Work, runs: Iterable[tuple[int, int]]) -> list[Entry]:
    """The entries from each first position to each last one, in the order of the log."""
    found: list[Entry] = []
    single: list[int] = []
    for first, last in runs:
        if last - first < SHORT_RUN:
            single += range(first, last + 1)
        else:
            statement = f"{_ENTRIES} WHERE position >= ? AND position <= ? ORDER BY position"
            found += map(Entry._make, database.rows(statement, (first, last)))
    if single:
        rows = rows_among(database, f"{_ENTRIES} WHERE position IN (@)", single)
        found = sorted([*found, *map(Entry._make, rows)])
    return found


def read_changes(database: Database | Work, runs: Sequence[tuple[int, int]]) -> list[Entry]:
    """The changes of documents among them."""
    if not runs:
        return []
    rows = database.rows(
        f"{_ENTRIES} WHERE kind = 'change' AND position >= ? AND position <= ? ORDER BY position",
        (runs[0][0], runs[-1][1]),
    )
    starts = [first for first, _ in runs]
    return [Entry._make(row) for row in rows if row[0] <= runs[bisect_right(starts, row[0]) - 1][1]]


def _row(position: int, number: int, publication: Publication) -> tuple[Any, ...]:
    body = msgspec.json.encode(publication.values, order="deterministic").decode()
    return (
        position,
        "update",
        publication.path,
        number,
        publication.timestamp,
        publication.key,
        body,
    )


def _insert(work: Work, rows: Iterable[tuple[Any, ...]]) -> None:
    work.many(
        "INSERT INTO log (position, kind, path, number, timestamp, partition_key, body) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        rows,
    )
