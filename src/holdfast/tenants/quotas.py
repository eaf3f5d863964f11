"""How much one tenant may have, so that others have the rest."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from holdfast.intervals import parse_interval
from holdfast.protocol.composition.documents import Stream
from holdfast.tenants.errors import QuotaError

__all__ = ["Kept", "Quotas", "Rates", "kept_of"]


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
    updates_per_second: float = 1000.0
    burst: int = 5000
    subscribers: int = 50
    """Connections that wait for events."""
    kept: int = 100_000
    """Updates that are kept of one stream."""


STEPS: Final = 4_000
"""What an update may set off to count as one."""
MOST_COSTS: Final = 10_000


class Rates:
    """A bucket for each tenant that fills as time passes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}
        self._costs: OrderedDict[str, float] = OrderedDict()

    def learn(self, work: Mapping[str, int]) -> None:
        """What an update of these streams has cost, in steps of the owner's own expressions."""
        with self._lock:
            for path, steps in work.items():
                self._costs[path] = max(1.0, steps / STEPS)
                self._costs.move_to_end(path)
            while len(self._costs) > MOST_COSTS:
                self._costs.popitem(last=False)

    def take(self, tenant: str, quotas: Quotas, updates: int, path: str = "") -> None:
        """Raises if so many updates are more than the tenant may publish now. One that sets off
        much counts as several."""
        now = self._clock()
        with self._lock:
            # Not more than all there can be: else nothing of the stream could be published at all.
            count = min(updates * self._costs.get(path, 1.0), float(quotas.burst))
            left, since = self._buckets.get(tenant, (float(quotas.burst), now))
            left = min(float(quotas.burst), left + (now - since) * quotas.updates_per_second)
            if count > left:
                self._buckets[tenant] = (left, now)
                raise QuotaError(
                    f"updates: {quotas.updates_per_second:g} a second is what you have, and "
                    f"{quotas.burst} at once; publish fewer, or later"
                )
            self._buckets[tenant] = (left - count, now)


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
