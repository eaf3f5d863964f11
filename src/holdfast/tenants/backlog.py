"""Bound on what a tenant has in the log and the engine has not settled.

The engine serves tenants in turn, so one that publishes faster than its turns go delays itself
alone; without a bound its log would grow for ever.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.protocol.composition.definitions import owner_of
from holdfast.tenants.errors import QuotaError
from holdfast.tenants.quotas import Quotas
from holdfast.tenants.store.database import Database

__all__ = ["Backlog", "Taken"]

RETRY_SECONDS: Final = 5


@dataclass
class Taken:
    """Room for entries that are being written."""

    entries: int
    size: int
    position: int = 0
    """Position of the last one in the log; 0 if nothing came to be there."""


@dataclass
class _Waiting:
    entries: int = 0
    size: int = 0
    settled: int = 0
    written: deque[Taken] = field(default_factory=deque)
    """In the log, by position."""

    def release(self) -> None:
        while self.written and self.written[0].position <= self.settled:
            done = self.written.popleft()
            self.entries -= done.entries
            self.size -= done.size


class Backlog:
    """Counters for each tenant; several threads may use them."""

    def __init__(self, database: Database) -> None:
        self._lock = threading.Lock()
        self._tenants: dict[str, _Waiting] = {}
        self._end = 0
        self.refused = 0
        """Requests since the server began."""
        self._read(database)

    @contextmanager
    def room(self, tenant: str, quotas: Quotas, entries: int, size: int) -> Iterator[Taken]:
        """Raises if the tenant has too much unsettled. The body sets the position of what it wrote.
        A tenant with nothing unsettled may always write."""
        taken = Taken(entries, size)
        with self._lock:
            waiting = self._tenants.setdefault(tenant, _Waiting(settled=self._end))
            if waiting.entries and (
                waiting.entries + entries > quotas.backlog
                or waiting.size + size > quotas.backlog_bytes
            ):
                self.refused += 1
                raise QuotaError(
                    f"backlog: {waiting.entries:,} of your updates and changes "
                    f"({waiting.size:,} bytes) are not calculated yet, and {quotas.backlog:,} "
                    f"({quotas.backlog_bytes:,} bytes) may be; publish more slowly",
                    RETRY_SECONDS,
                )
            waiting.entries += entries
            waiting.size += size
        try:
            yield taken
        finally:
            with self._lock:
                if taken.position:
                    # Threads may come here in another order than that of the log: late at worst.
                    last = waiting.written[-1].position if waiting.written else 0
                    taken.position = max(taken.position, last)
                    waiting.written.append(taken)
                    waiting.release()
                else:
                    waiting.entries -= entries
                    waiting.size -= size

    def settled(self, end: int, cursors: Mapping[str, int]) -> None:
        """All up to `end`, and of some tenants more, has been calculated."""
        with self._lock:
            self._end = max(end, self._end)
            for tenant, waiting in list(self._tenants.items()):
                waiting.settled = max(waiting.settled, self._end, cursors.get(tenant, 0))
                waiting.release()
                if not waiting.entries and not waiting.written:
                    del self._tenants[tenant]

    def told(self) -> dict[str, Any]:
        """For /health: names nobody."""
        with self._lock:
            return {
                "tenants": len(self._tenants),
                "entries": sum(each.entries for each in self._tenants.values()),
                "bytes": sum(each.size for each in self._tenants.values()),
                "refused": self.refused,
            }

    def _read(self, database: Database) -> None:
        """Entries that an earlier process has left."""
        rows: list[Any] = database.rows("SELECT position FROM progress WHERE name = 'engine'")
        self._end = int(rows[0][0])
        cursors: dict[str, Any] = dict(database.rows("SELECT tenant, position FROM cursors"))
        for path, count, size, last in database.rows(
            "SELECT path, count(*), sum(length(body)), max(position) FROM log "
            "WHERE position > ? GROUP BY path ORDER BY max(position)",
            (self._end,),
        ):
            tenant = owner_of(path)
            waiting = self._tenants.setdefault(tenant, _Waiting())
            waiting.settled = max(self._end, int(cursors.get(tenant, 0)))
            waiting.entries += int(count)
            waiting.size += int(size)
            waiting.written.append(Taken(int(count), int(size), int(last)))
        for waiting in self._tenants.values():
            waiting.release()
