"""Retention of streams: the newest updates, by number and by age.

Old updates go a while after newer ones have come, with their log entries and old failures. Windows
and last updates lie elsewhere and lose nothing. Of the log remain the changes of documents and the
newest entry of each stream, by which publishers' offsets go on. What a broker has not got yet
stays.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from holdfast.tenants.machine.definitions import owner_of
from holdfast.tenants.machine.documents import Stream
from holdfast.tenants.process.backlog import Kept, Quotas, kept_of
from holdfast.tenants.process.engine.storing import progress
from holdfast.tenants.process.graph import streams_at
from holdfast.tenants.process.service import Service
from holdfast.tenants.process.store.database import Database
from holdfast.tenants.process.store.pages import drop_pages, offsets_in_pages, updates_in_pages

EVERY: Final = 10.0
"""Seconds between two looks."""
MARGIN: Final = 1.1
"""So many times what is to be kept may be there, so that not every update is a deletion."""
AT_ONCE: Final = 5_000
"""Offsets in one transaction: publishers wait for it."""
FAILURES: Final = 1_000
"""Of one stream."""
NOTES: Final = 10_000
"""Of one tenant: in the audit log, and among its calls."""

logger = logging.getLogger(__name__)


class Retention:
    """A thread that takes away what is too old."""

    def __init__(self, service: Service, *, has_broker: bool = False) -> None:
        self._service = service
        self._has_broker = has_broker
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join(EVERY)

    def _run(self) -> None:
        while not self._end.wait(EVERY):
            try:
                self.sweep()
            except Exception:
                logger.exception("retention: will be tried again")

    def sweep(self) -> int:
        """Look at all that has got something since the last time; answers how many updates went."""
        database = self._service.database
        until = progress(database)
        if self._has_broker:
            until = min(until, _noted(database, "mqtt"))
        since = _noted(database, "retention")
        if until <= since:
            return 0
        asked = (since, until)
        paths = {
            path
            for statement in (
                "SELECT DISTINCT path FROM updates WHERE position > ? AND position <= ?",
                "SELECT DISTINCT path FROM pages WHERE last_position > ? AND position <= ?",
                "SELECT DISTINCT path FROM failures WHERE position > ? AND position <= ?",
                "SELECT path FROM streams WHERE since > ? AND since <= ?",
            )
            for (path,) in database.rows(statement, asked)
        }
        streams = streams_at(database, paths)
        dropped = 0
        for path, stream in sorted(streams.items()):
            if self._end.is_set():
                return dropped
            dropped += self._trim(path, self._kept(path, stream), until)
        self._trim_notes()
        with database.transaction() as work:
            work.run(
                "INSERT INTO progress (name, position) VALUES ('retention', ?) "
                "ON CONFLICT (name) DO UPDATE SET position = excluded.position",
                (until,),
            )
        return dropped

    def _kept(self, path: str, stream: Stream) -> Kept:
        tenant = self._service.registry.named(owner_of(path))
        return kept_of(stream, tenant.quotas if tenant is not None else Quotas())

    def _trim(self, path: str, kept: Kept, until: int) -> int:
        database = self._service.database
        _trim_failures(database, path)
        bounds = [
            int(bound)
            for statement in (
                "SELECT min(number), max(number) FROM updates WHERE path = ?",
                "SELECT min(number), max(last) FROM pages WHERE path = ?",
            )
            for bound in database.rows(statement, [path])[0]
            if bound is not None
        ]
        if not bounds:
            return 0
        first, last = min(bounds), max(bounds)
        cut = max(_by_count(database, path, kept, first, last), _by_age(database, path, kept, last))
        return self._drop(path, first, cut, until) if cut > first else 0

    def _drop(self, path: str, first: int, cut: int, until: int) -> int:
        """All before an offset, some at a time."""
        dropped = 0
        for end in range(first + AT_ONCE, cut + AT_ONCE, AT_ONCE):
            before = min(end, cut)
            with self._service.database.transaction() as work:
                gone = work.run(
                    "DELETE FROM updates WHERE path = ? AND number < ? AND position <= ?",
                    (path, before, until),
                ) + drop_pages(work, path, before, until)
                work.run(
                    "DELETE FROM log WHERE path = ? AND number < ? AND kind = 'update' "
                    "AND position <= ?",
                    (path, before, until),
                )
                work.run(
                    "INSERT INTO dropped (path, count, before) VALUES (?, ?, ?) "
                    "ON CONFLICT (path) DO UPDATE SET count = dropped.count + excluded.count, "
                    "before = excluded.before",
                    (path, gone, before),
                )
            dropped += gone
        return dropped

    def _trim_notes(self) -> None:
        database = self._service.database
        for name in self._service.registry.names():
            for table, clause in (("audit", ""), ("calls", " AND state <> 'due'")):
                rows = database.rows(
                    f"SELECT id FROM {table} WHERE tenant = ? ORDER BY id DESC LIMIT 1 OFFSET ?",
                    (name, NOTES),
                )
                if rows:
                    with database.transaction() as work:
                        work.run(
                            f"DELETE FROM {table} WHERE tenant = ? AND id <= ?{clause}",
                            (name, rows[0][0]),
                        )


def _by_count(database: Database, path: str, kept: Kept, first: int, last: int) -> int:
    """The first offset that stays."""
    if last - first + 1 <= kept.updates * MARGIN:
        return first
    most = kept.updates
    rows = database.rows(
        "SELECT number FROM updates WHERE path = ? ORDER BY number DESC LIMIT ?", (path, most)
    )
    newest = [*offsets_in_pages(database, path, most), *(int(number) for (number,) in rows)]
    return sorted(newest, reverse=True)[most - 1] if len(newest) >= most else first


def _by_age(database: Database, path: str, kept: Kept, last: int) -> int:
    """Those go that are older than the newest by so much, by their own clock: data of last year
    that come today are kept."""
    if kept.age is None:
        return 0
    newest = [
        int(at)
        for statement in (
            "SELECT max(timestamp) FROM updates WHERE path = ?",
            "SELECT max(until) FROM pages WHERE path = ?",
        )
        for (at,) in database.rows(statement, (path,))
        if at is not None
    ]
    since = max(newest) - kept.age
    rows = database.rows(
        "SELECT min(number) FROM updates WHERE path = ? AND timestamp > ?", (path, since)
    )
    found = [int(number) for (number,) in rows if number is not None]
    paged = next(updates_in_pages(database, path, -1, since + 1, 2**62), None)
    if paged is not None:
        found.append(paged.offset)
    return min(last, *found)


def _trim_failures(database: Database, path: str) -> None:
    rows = database.rows(
        "SELECT position FROM failures WHERE path = ? ORDER BY position DESC LIMIT 1 OFFSET ?",
        (path, FAILURES),
    )
    if rows:
        with database.transaction() as work:
            work.run("DELETE FROM failures WHERE path = ? AND position <= ?", (path, rows[0][0]))


def _noted(database: Database, name: str) -> int:
    rows: list[Any] = database.rows("SELECT position FROM progress WHERE name = ?", (name,))
    return int(rows[0][0]) if rows else 0
