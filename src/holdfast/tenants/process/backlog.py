"""Quotas of a tenant, and the bound on its unsettled entries.

The engine serves tenants in turn, so one that publishes faster than its turns go delays itself
alone; without a bound its log would grow for ever.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final, Literal, NamedTuple

import msgspec

from holdfast.errors import QuotaError
from holdfast.intervals import parse_interval
from holdfast.tenants.machine.definitions import owner_of
from holdfast.tenants.machine.documents import Stream
from holdfast.tenants.process.store.database import Database


class Quotas(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    streams: int = 1000
    inputs: int = 64
    """Of one stream."""
    members: int = 1000
    """Of a query."""
    depth: int = 200
    """Streams one after the other, whoever owns them."""
    fan_out: int = 1000
    """Streams that take the same one."""
    links: int = 5_000
    """Inputs of all streams together, each member of a query counted; at least two a stream."""
    updates_per_second: float = 1000.0
    burst: int = 5000
    """Updates at once."""
    changes_per_second: float = 20.0
    """Documents written or removed, and actions called. One for the request and one for each
    ten streams of the document."""
    changes_burst: int = 200
    reads_per_second: float = 200.0
    """One for the request, and one for each further millisecond of processor time."""
    reads_burst: int = 1000
    subscribers: int = 50
    """Connections that wait for events."""
    backlog: int = 50_000
    """Entries in the log that are not calculated yet."""
    backlog_bytes: int = 64 * 2**20
    """Bytes of their values, about."""
    kept: int = 100_000
    """Updates that are kept of one stream."""

    @property
    def most_links(self) -> int:
        return max(self.links, 2 * self.streams)


STEPS: Final = 4_000
"""What an update may set off to count as one."""
MOST_COSTS: Final = 10_000


Kind = Literal["updates", "changes", "reads"]

_SAID: Final[dict[Kind, str]] = {
    "updates": "publish fewer, or later",
    "changes": "write several streams in one document, or later",
    "reads": "read more at once, follow events, or read later",
}


class Rates:
    """Buckets for each tenant that fill as time passes: one for each kind of request."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[tuple[str, Kind], tuple[float, float]] = {}
        self._costs: OrderedDict[str, float] = OrderedDict()
        self._refused: Counter[str] = Counter()

    def learn(self, work: Mapping[str, int]) -> None:
        """What an update of these streams has cost, in steps of the owner's own expressions."""
        with self._lock:
            for path, steps in work.items():
                self._costs[path] = max(1.0, steps / STEPS)
                self._costs.move_to_end(path)
            while len(self._costs) > MOST_COSTS:
                self._costs.popitem(last=False)

    def publish(self, tenant: str, quotas: Quotas, updates: int, path: str) -> None:
        """Raises if so many updates are more than the tenant may publish now. One that sets off
        much counts as several."""
        with self._lock:
            count = updates * self._costs.get(path, 1.0)
        self.take(tenant, quotas, "updates", count)

    def take(self, tenant: str, quotas: Quotas, kind: Kind, count: float = 1.0) -> None:
        """Raises `QuotaError` if there is not so much left."""
        self._spend(tenant, quotas, kind, count, count)

    def check(self, tenant: str, quotas: Quotas, kind: Kind) -> None:
        """Raises `QuotaError` if nothing would be taken now."""
        self._spend(tenant, quotas, kind, 1.0, 0.0)

    def charge(self, tenant: str, quotas: Quotas, kind: Kind, count: float) -> None:
        """For what has been done already: it may leave less than nothing."""
        self._spend(tenant, quotas, kind, None, count)

    def count_refused(self, what: str) -> None:
        with self._lock:
            self._refused[what] += 1

    @property
    def refused(self) -> dict[str, int]:
        """Requests that were refused since the server began."""
        with self._lock:
            return {**dict.fromkeys(_SAID, 0), "waiting": 0, **self._refused}

    def _spend(
        self, tenant: str, quotas: Quotas, kind: Kind, needed: float | None, count: float
    ) -> None:
        rate, burst = _bounds(quotas, kind)
        now = self._clock()
        with self._lock:
            left, since = self._buckets.get((tenant, kind), (burst, now))
            left = min(burst, left + (now - since) * rate)
            # Not more than all there can be: else it could not be had at all.
            if needed is not None and min(needed, burst) > left:
                self._buckets[tenant, kind] = (left, now)
                self._refused[kind] += 1
                raise QuotaError(
                    f"{kind}: {rate:g} a second is what you have, and {burst:g} at once; "
                    f"{_SAID[kind]}",
                    _seconds(min(needed, burst) - left, rate),
                )
            self._buckets[tenant, kind] = (max(left - count, -burst), now)


def _bounds(quotas: Quotas, kind: Kind) -> tuple[float, float]:
    """What there is in a second, and at once."""
    if kind == "updates":
        return quotas.updates_per_second, float(quotas.burst)
    if kind == "changes":
        return quotas.changes_per_second, float(quotas.changes_burst)
    return quotas.reads_per_second, float(quotas.reads_burst)


def _seconds(missing: float, rate: float) -> int:
    """Until so much is there again: 1 to 3,600."""
    return max(1, min(3_600, ceil(missing / rate))) if rate > 0 else 3_600


class Kept(NamedTuple):
    """What of a stream is kept."""

    updates: int
    age: int | None
    """Microseconds, if there is a limit."""


def kept_of(stream: Stream, quotas: Quotas) -> Kept:
    """As its owner wants it, within the quota."""
    keep = stream.keep
    return Kept(
        quotas.kept if keep.count is None else min(keep.count, quotas.kept),
        None if keep.age is None else parse_interval("keep.age", keep.age),
    )


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
