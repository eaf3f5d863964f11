"""Admission of requests to the threads that serve them: so many of one tenant at once, the others
wait in line. A tenant that asks for much waits for itself."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from anyio import CapacityLimiter
from starlette.concurrency import run_in_threadpool

from holdfast.tenants.errors import QuotaError
from holdfast.tenants.quotas import Kind, Rates
from holdfast.tenants.registry import Tenant

__all__ = ["Admission", "Identities"]

AT_ONCE: Final = 4
"""Requests of one tenant that are worked on."""
MOST_WAITING: Final = 200
"""Requests of one tenant that wait for those."""
MOST_OPEN: Final = AT_ONCE + MOST_WAITING
"""Requests of one tenant of which the body is not read or the answer not sent, those that wait
included."""
READ_MICROS: Final = 1_000.0
"""Processor time of a read that counts as one."""

MOST_IDENTITIES: Final = 10_000

P = ParamSpec("P")
T = TypeVar("T")


class Admission:
    """Used from the event loop only."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._lines: dict[str, CapacityLimiter] = {}
        self._inside: Counter[str] = Counter()
        self._open: Counter[str] = Counter()

    def enter(self, tenant: Tenant) -> Callable[[], None]:
        """Note a request from before its body is read until its answer is sent, for both are held
        in memory meanwhile; answers what to call then. Raises `QuotaError` if there are too many.
        """
        name = tenant.name
        if self._open[name] >= MOST_OPEN:
            self._rates.count_refused("waiting")
            raise QuotaError(
                f"requests: {MOST_OPEN} of yours are open already; send them as a whole, read the "
                "answers, and send fewer at the same time"
            )
        self._open[name] += 1

        def leave() -> None:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]

        return leave

    async def run(
        self, tenant: Tenant, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """In a thread. Raises `QuotaError` if too many wait already."""
        name = tenant.name
        if self._inside[name] >= AT_ONCE + MOST_WAITING:
            self._rates.count_refused("waiting")
            raise QuotaError(
                f"requests: {MOST_WAITING} of yours wait already; send fewer at the same time"
            )
        line = self._lines.setdefault(name, CapacityLimiter(AT_ONCE))
        self._inside[name] += 1
        try:
            async with line:
                return await run_in_threadpool(function, *args, **kwargs)
        finally:
            self._inside[name] -= 1
            if not self._inside[name]:
                del self._inside[name], self._lines[name]

    async def read(
        self, tenant: Tenant, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The same, of a read: one that takes long counts as several."""

        def metered() -> T:
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent = (time.thread_time() - began) * 1e6
                if spent > READ_MICROS:
                    self._rates.charge(
                        tenant.name, tenant.quotas, "reads", spent / READ_MICROS - 1.0
                    )

        return await self.run(tenant, metered)


class Identities:
    """Tokens that were valid, only to refuse by: a tenant that sends far too much is refused
    without a look at the store. Nobody is let in by them. Used from the event loop only."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._known: OrderedDict[str, Tenant] = OrderedDict()

    def note(self, authorization: str | None, tenant: Tenant) -> None:
        self._known[authorization or ""] = tenant
        self._known.move_to_end(authorization or "")
        if len(self._known) > MOST_IDENTITIES:
            self._known.popitem(last=False)

    def check(self, authorization: str | None, kind: Kind) -> None:
        """Raises `QuotaError` if the tenant with this token may do nothing of the kind now."""
        tenant = self._known.get(authorization or "")
        if tenant is not None:
            self._rates.check(tenant.name, tenant.quotas, kind)
