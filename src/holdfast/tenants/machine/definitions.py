"""Rules of a document beyond its shape, and its streams with full names."""

from __future__ import annotations

from math import asin, cos, radians, sin, sqrt
from typing import Final

import msgspec

from holdfast.errors import InvalidArgumentError
from holdfast.intervals import parse_interval
from holdfast.tenants.machine.documents import (
    Action,
    Aggregate,
    DocumentError,
    Near,
    Query,
    ServiceObject,
    Stream,
)
from holdfast.tenants.machine.settling import WINDOW

# fmt: off
_RESERVED: Final = frozenset({
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in",
    "let", "loop", "namespace", "null", "package", "return", "true", "var", "void", "while",
})
# fmt: on
EARTH: Final = 6371.0
"""Its radius in kilometres."""


def owner_of(path: str) -> str:
    return path.partition("/")[0]


def admits(path: str, stream: Stream, tenant: str) -> bool:
    """Whether a tenant may read a stream."""
    return owner_of(path) == tenant or stream.access.admits(tenant)


def channel_types(stream: Stream) -> dict[str, str]:
    return {name: str(channel.type) for name, channel in stream.channels.items()}


def resolved(tenant: str, name: str, document: ServiceObject) -> dict[str, Stream]:
    """The streams of a document by path; raises `DocumentError` for what cannot be."""
    for action_name, action in document.actions.items():
        _check_action(f"actions.{action_name}", action)
    return {
        f"{tenant}/{name}/{each}": _resolved(tenant, name, each, stream)
        for each, stream in document.streams.items()
    }


def full_path(tenant: str, name: str, reference: str) -> str:
    parts = reference.split("/")
    return "/".join([*[tenant, name][: 3 - len(parts)], *parts])


def _resolved(tenant: str, name: str, stream_name: str, stream: Stream) -> Stream:
    place = f"streams.{stream_name}"
    _check_names(place, stream)
    _check_span(f"{place}.keep.age", stream.keep.age)
    if not stream.is_composite:
        _check_simple(place, stream)
        return stream
    inputs = {}
    for alias, each in stream.inputs.items():
        if (each.stream is None) == (each.query is None):
            raise DocumentError(f"{place}.inputs.{alias}: give either stream or query")
        inputs[alias] = (
            each
            if each.stream is None
            else msgspec.structs.replace(each, stream=full_path(tenant, name, each.stream))
        )
    own = f"{tenant}/{name}/{stream_name}"
    if all(each.stream == own for each in inputs.values()):
        raise DocumentError(f"{place}.inputs: it is its only input; nothing would ever set it off")
    if stream.aggregate is not None:
        _check_aggregate(f"{place}.aggregate", stream.aggregate, stream)
    actions = []
    for number, call in enumerate(stream.actions):
        action = full_path(tenant, name, call.action)
        if owner_of(action) != tenant:
            raise DocumentError(f"{place}.actions.{number}: is not yours; call your own actions")
        actions.append(msgspec.structs.replace(call, action=action))
    return msgspec.structs.replace(stream, inputs=inputs, actions=actions)


def _check_names(place: str, stream: Stream) -> None:
    for kind, names in (("channels", stream.channels), ("inputs", stream.inputs)):
        for each in names:
            if each in _RESERVED or (kind == "inputs" and each == WINDOW):
                raise DocumentError(f"{place}.{kind}.{each}: means something else; rename it")


def _check_simple(place: str, stream: Stream) -> None:
    for name, channel in stream.channels.items():
        if channel.expression is not None:
            raise DocumentError(
                f"{place}.channels.{name}: has an expression, but the stream has no inputs; "
                "give inputs, or leave it out"
            )
    for what in ("filter", "group", "aggregate", "actions"):
        if getattr(stream, what):
            raise DocumentError(f"{place}.{what}: needs inputs; derive another stream from this")


def _check_aggregate(place: str, aggregate: Aggregate, stream: Stream) -> None:
    if aggregate.input not in stream.inputs:
        raise DocumentError(f"{place}.input: {aggregate.input!r} is none of its inputs")
    if aggregate.over == "partitions":
        if aggregate.size is not None or aggregate.count is not None:
            raise DocumentError(f"{place}: partitions have expiry, not size and count")
    elif aggregate.expiry is not None or (aggregate.size is None and aggregate.count is None):
        raise DocumentError(f"{place}: a window has size, or count, or both, and no expiry")
    _check_span(place, aggregate.size if aggregate.over == "window" else aggregate.expiry)


def _check_span(place: str, told: str | None) -> None:
    if told is None:
        return
    try:
        span = parse_interval(place, told)
    except InvalidArgumentError as error:
        raise DocumentError(str(error)) from None
    if span <= 0:
        raise DocumentError(f"{place}: covers no time; give more than 0")


def _check_action(place: str, action: Action) -> None:
    given = [action.webhook is not None, action.mqtt is not None, bool(action.calls)]
    if sum(given) != 1:
        raise DocumentError(f"{place}: give one of webhook, mqtt and calls")


def fits_query(query: Query, path: str, stream: Stream) -> bool:
    """Whether a stream is a member, as far as its description goes."""
    if query.tenant is not None and owner_of(path) != query.tenant:
        return False
    if any(stream.description.get(tag) != value for tag, value in query.match.items()):
        return False
    types = channel_types(stream)
    if any(types.get(name) != kind for name, kind in query.channels.items()):
        return False
    if query.near is None:
        return True
    return stream.place is not None and distance(query.near, stream.place) <= query.near.km


def distance(one: Near, other: Near) -> float:
    """In kilometres, over the ground."""
    first, second = radians(one.latitude), radians(other.latitude)
    across = radians(other.longitude - one.longitude)
    half = sin((second - first) / 2) ** 2 + cos(first) * cos(second) * sin(across / 2) ** 2
    return 2 * EARTH * asin(sqrt(min(1.0, half)))
