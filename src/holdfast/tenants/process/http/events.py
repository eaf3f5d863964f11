"""Updates as server-sent events, and a page that draws a stream."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import Any, Final

import msgspec
from starlette.requests import Request

from holdfast.errors import HoldfastError, QuotaError, TenantError
from holdfast.tenants.process.http.requests import Admission
from holdfast.tenants.process.reading import Wanted
from holdfast.tenants.process.registry import Tenant
from holdfast.tenants.process.service import Service

# A page that draws a stream as it comes: no library, nothing from elsewhere, a strict policy.
#
# The token is typed in and stays in the page: it is sent as a header with `fetch`, which can read
# server-sent events too, and never stands in an address.

CHART: Final = files(__package__).joinpath("chart.html").read_text()
SCRIPT: Final = files(__package__).joinpath("chart.js").read_text()
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


PULSE: Final = 15.0
"""Seconds after which something is sent, so that a connection that is gone is noticed."""
AT_ONCE: Final = 500


class Events:
    """All who wait for updates of this process."""

    def __init__(self, service: Service, admission: Admission) -> None:
        self._service = service
        self._admission = admission
        self._open: Counter[str] = Counter()

    def admit(self, tenant: Tenant) -> Callable[[], None]:
        """Raises if the tenant has too many connections that wait; else answers what to call when
        this one ends."""
        if self._open[tenant.name] >= tenant.quotas.subscribers:
            raise QuotaError(
                f"events: you have {tenant.quotas.subscribers} subscribers, and may have no more"
            )
        self._open[tenant.name] += 1

        def leave() -> None:
            self._open[tenant.name] -= 1

        return leave

    async def of(
        self,
        request: Request,
        tenant: Tenant,
        path: str,
        after: int,
        check: Callable[[], None],
    ) -> AsyncIterator[bytes]:
        """From beyond an offset; `check` raises once the token is not valid any more."""
        bell = asyncio.Event()
        loop = asyncio.get_running_loop()

        def ring(_: int) -> None:
            loop.call_soon_threadsafe(bell.set)

        stop = self._service.listen(ring)
        try:
            yield b": welcome\n\n"
            before = await self._admission.run(tenant, self._service.reading.dropped_before, path)
            if 0 <= after < before - 1:
                # Whoever goes on from a place is to know that what followed is not kept.
                yield b'event: gap\ndata: {"before": %d}\n\n' % before
            while not await request.is_disconnected():
                bell.clear()
                try:
                    await self._admission.run(tenant, check)
                    found = await self._admission.read(
                        tenant,
                        self._service.reading.updates,
                        tenant.name,
                        path,
                        Wanted(after=after, limit=AT_ONCE),
                    )
                except HoldfastError as error:
                    # It was removed, or is no longer shared, or the token was replaced.
                    yield _end(error)
                    return
                for update in found:
                    after = update["offset"]
                    yield _event(update)
                if not found:
                    try:
                        await asyncio.wait_for(bell.wait(), PULSE)
                    except TimeoutError:
                        yield b": still here\n\n"
        finally:
            stop()


def _event(update: dict[str, Any]) -> bytes:
    return b"id: %d\ndata: %s\n\n" % (update["offset"], msgspec.json.encode(update))


def _end(error: HoldfastError) -> bytes:
    status = error.status if isinstance(error, TenantError) else 503
    told = msgspec.json.encode({"status": status, "error": str(error)})
    return b"event: end\ndata: %s\n\n" % told
