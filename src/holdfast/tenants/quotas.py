"""How much one tenant may have, so that others have the rest."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from math import ceil
from typing import Final, Literal, NamedTuple

import msgspec

from holdfast.intervals import parse_interval
from holdfast.protocol.composition.documents import Stream
from holdfast.tenants.errors import QuotaError

__all__ = ["Kept", "Kind", "Quotas", "Rates", "kept_of"]


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
