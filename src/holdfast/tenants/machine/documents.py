"""Service objects as tenants write them: JSON documents, checked.

What a document means among those of other tenants is checked by `definitions`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from holdfast.errors import InvalidArgumentError

IDENTIFIER: Final = r"^[a-z][a-z0-9_]{0,62}$"
"""What expressions can say: channels and the names of inputs."""
NAME: Final = r"^[a-z][a-z0-9_-]{0,62}$"
"""Tenants, objects, streams, actions."""
ACTION: Final = r"^([a-z][a-z0-9_-]{0,62}/){0,2}[a-z][a-z0-9_-]{0,62}$"

LARGEST_DOCUMENT: Final = 262_144
LARGEST_WINDOW: Final = 10_000_000
"""Updates in one window."""

D = TypeVar("D")

Name = Annotated[str, Meta(pattern=NAME)]
Identifier = Annotated[str, Meta(pattern=IDENTIFIER)]
Reference = Annotated[
    str, Meta(pattern=ACTION, description="NAME, OBJECT/NAME, TENANT/OBJECT/NAME")
]
Expression = Annotated[str, Meta(min_length=1, max_length=4096)]
Text = Annotated[str, Meta(max_length=1024)]
Interval = Annotated[str, Meta(min_length=1, max_length=64, description="Such as 10m or 1h30m")]
ChannelType = Literal[
    "number",
    "integer",
    "boolean",
    "string",
    "number[]",
    "integer[]",
    "boolean[]",
    "string[]",
]


class DocumentError(InvalidArgumentError):
    """A document that cannot be taken; the message names the field."""


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a tenant writes: a field that nobody knows is refused, not ignored."""


class Channel(_Document, frozen=True):
    type: ChannelType
    expression: Expression | None = None
    """Of a composite stream, in the Common Expression Language."""
    unit: Text | None = None


class Near(_Document, frozen=True):
    latitude: Annotated[float, Meta(ge=-90, le=90)]
    longitude: Annotated[float, Meta(ge=-180, le=180)]
    km: Annotated[float, Meta(gt=0, le=20_100)]


class Query(_Document, frozen=True):
    """Streams by what is said of them: those that fit now, and those that will."""

    match: Annotated[dict[Identifier, Text], Meta(min_length=1, max_length=16)]
    channels: Annotated[dict[Identifier, ChannelType], Meta(min_length=1, max_length=64)]
    """A stream without these does not fit."""
    tenant: Name | None = None
    near: Near | None = None


class Input(_Document, frozen=True):
    """A stream, or a query for streams."""

    stream: Reference | None = None
    query: Query | None = None
    optional: bool = False
    """Whether results are made before it has brought anything."""


class Field(_Document, frozen=True):
    function: Literal[
        "count", "sum", "mean", "min", "max", "range", "stddev", "first", "last", "any", "all"
    ]
    of: Expression | None = None


class Aggregate(_Document, frozen=True):
    """Many updates of one input made into one record: `window.mean` in the expressions."""

    input: Identifier
    fields: Annotated[dict[Identifier, Field], Meta(min_length=1, max_length=32)]
    over: Literal["window", "partitions"] = "window"
    size: Interval | None = None
    """Of a window: the time it covers."""
    count: Annotated[int, Meta(ge=1, le=LARGEST_WINDOW)] | None = None
    """Of a window: the number of updates it holds at most."""
    expiry: Interval | None = None
    """Of partitions: after so long without an update, one no longer counts."""


class Access(_Document, frozen=True):
    """Who else may read a stream: `*` or names of tenants. Deny goes before allow."""

    allow: Annotated[
        list[Annotated[str, Meta(pattern=r"^(\*|[a-z][a-z0-9_-]{0,62})$")]], Meta(max_length=256)
    ] = []
    deny: Annotated[
        list[Annotated[str, Meta(pattern=r"^(\*|[a-z][a-z0-9_-]{0,62})$")]], Meta(max_length=256)
    ] = []

    def admits(self, tenant: str) -> bool:
        if tenant in self.deny or "*" in self.deny:
            return False
        return tenant in self.allow or "*" in self.allow

    @property
    def admits_all(self) -> bool:
        return "*" in self.allow and not self.deny


class Keep(_Document, frozen=True):
    """How much of a stream is kept: of both, what is less; nothing beyond the tenant's quota."""

    count: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    age: Interval | None = None
    """Older than the newest update by so much, by their timestamps."""


class ActionCall(_Document, frozen=True):
    """An action of one's own that an update of the stream sets off."""

    action: Reference
    when: Expression | None = None


class Stream(_Document, frozen=True):
    """Simple without inputs, composite with them; to all who read it the same."""

    channels: Annotated[dict[Identifier, Channel], Meta(min_length=1, max_length=64)]
    description: Annotated[dict[Identifier, Text], Meta(max_length=16)] = {}
    place: Near | None = None
    """Where it is; `km` is how well that is known."""
    inputs: Annotated[dict[Identifier, Input], Meta(max_length=256)] = {}
    filter: Expression | None = None
    group: Expression | None = None
    """The name of an update's partition, as a string."""
    aggregate: Aggregate | None = None
    access: Access = Access()
    keep: Keep = Keep()
    actions: Annotated[list[ActionCall], Meta(max_length=16)] = []

    @property
    def is_composite(self) -> bool:
        return bool(self.inputs)


class Action(_Document, frozen=True):
    """What is done outside: exactly one of the three."""

    webhook: Annotated[str, Meta(pattern=r"^https?://", max_length=1024)] | None = None
    mqtt: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_/-]{1,200}$")] | None = None
    calls: Annotated[list[Reference], Meta(max_length=32)] = []
    """A composite action: others of one's own."""


class ServiceObject(_Document, frozen=True):
    streams: Annotated[dict[Name, Stream], Meta(max_length=1000)] = {}
    actions: Annotated[dict[Name, Action], Meta(max_length=100)] = {}
    description: Annotated[dict[Identifier, Text], Meta(max_length=16)] = {}


def read_as(data: bytes, kind: type[D]) -> D:
    """Of what came over the wire, which may be anything."""
    if len(data) > LARGEST_DOCUMENT:
        raise DocumentError(
            f"document: has {len(data)} bytes, of {LARGEST_DOCUMENT} at most; divide it"
        )
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DocumentError(f"document: {error}") from None
    except RecursionError:
        raise DocumentError("document: is nested too deeply") from None
