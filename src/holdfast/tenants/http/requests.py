"""Requests read: nothing of them is trusted, and what is wrong is said."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect, Request

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.composition.documents import LARGEST_DOCUMENT, NAME, Near, read_as
from holdfast.tenants.errors import TenantError
from holdfast.tenants.http.routes import Parameter, Route
from holdfast.tenants.reading import Wanted

__all__ = [
    "LIMIT",
    "WANTED",
    "check_names",
    "read_body",
    "read_bytes",
    "read_parameters",
    "stream_path",
    "wanted",
]

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
