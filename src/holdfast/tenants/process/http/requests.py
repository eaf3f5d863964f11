"""Requests, read without trust, and their admission to threads."""

from __future__ import annotations

import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

import msgspec
from anyio import CapacityLimiter
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from holdfast.errors import InvalidArgumentError, QuotaError, TenantError
from holdfast.tenants.machine.documents import LARGEST_DOCUMENT, NAME, Near, read_as
from holdfast.tenants.process.backlog import Kind, Rates
from holdfast.tenants.process.http.routes import Parameter, Route
from holdfast.tenants.process.reading import Wanted
from holdfast.tenants.process.registry import Tenant

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


LIMIT: Final = Parameter(
    "limit", "integer", "So many at most.", {"minimum": 1, "maximum": 1000, "default": 100}
)
_TIME: Final = {"minimum": -(2**53), "maximum": 2**53}
WANTED: Final = (
    Parameter("since", "integer", "Not older than this, in microseconds.", _TIME),
    Parameter("until", "integer", "Older than this, in microseconds.", _TIME),
    Parameter(
        "after", "integer", "With an offset beyond this one.", {"minimum": -1, "maximum": 2**53}
    ),
    Parameter("key", "string", "Of this partition.", {"maxLength": 128}),
    Parameter(
        "text", "string", "With a string like this; * and ? stand for others.", {"maxLength": 256}
    ),
    Parameter("latitude", "number", "Near here.", {"minimum": -90, "maximum": 90}),
    Parameter("longitude", "number", "Near here.", {"minimum": -180, "maximum": 180}),
    Parameter("km", "number", "How near.", {"exclusiveMinimum": 0, "maximum": 20_100}),
    LIMIT,
)


class TooLargeError(TenantError):
    status = 413


async def read_body(request: Request, kind: Any) -> Any:
    return read_as(await read_bytes(request), kind)


async def read_bytes(request: Request) -> bytes:
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > LARGEST_DOCUMENT:
                raise TooLargeError(
                    f"body: has more than {LARGEST_DOCUMENT} bytes; send less at once"
                )
    except ClientDisconnect:
        # Nobody reads the answer, and a traceback for each would fill the log.
        raise InvalidArgumentError("body: the connection ended before all of it came") from None
    return bytes(data)


def read_parameters(request: Request, route: Route) -> dict[str, Any]:
    """Those of the route, each once and with its type; others are refused."""
    known = {each.name: each for each in route.parameters}
    found: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            raise InvalidArgumentError(f"query: {name[:80]!r} is not known here")
        if name in found:
            raise InvalidArgumentError(f"query: {name} is given twice")
        found[name] = _value(known[name], value)
    return found


def _value(parameter: Parameter, text: str) -> Any:
    kind: Any = {"integer": int, "number": float, "string": str}[parameter.kind]
    if parameter.kind == "string" and ("\x00" in text or len(text) > parameter.limits["maxLength"]):
        raise InvalidArgumentError(f"query: {parameter.name} is too long or has a zero in it")
    try:
        value = msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError:
        raise InvalidArgumentError(f"query: {parameter.name} is no {parameter.kind}") from None
    limits = parameter.limits
    if parameter.kind != "string" and not (
        limits.get("minimum", value) <= value <= limits["maximum"]
        and value > limits.get("exclusiveMinimum", value - 1)
    ):
        raise InvalidArgumentError(f"query: {parameter.name} must be within {dict(limits)}")
    return value


def check_names(request: Request) -> None:
    """The parts of an address that name something."""
    for what, name in request.path_params.items():
        if re.fullmatch(NAME, name) is None:
            raise InvalidArgumentError(
                f"{what}: {name[:80]!r} is no name; use small letters, digits, _ and -"
            )


def wanted(parameters: dict[str, Any]) -> Wanted:
    place = {name: parameters.pop(name, None) for name in ("latitude", "longitude", "km")}
    near = None
    if any(value is not None for value in place.values()):
        if None in place.values():
            raise InvalidArgumentError("query: latitude, longitude and km go together")
        near = Near(**place)
    return Wanted(near=near, **parameters)


def stream_path(request: Request) -> str:
    return "/".join(request.path_params[name] for name in ("tenant", "object", "stream"))
