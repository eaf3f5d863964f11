"""Messages between sensors, children, intermediates and the root.

Any message may be lost, repeated, delayed or overtaken, and can be sent again without harm. Fields
are plain data; only `Events` holds arrays. Times are event times in microseconds unless said
otherwise, offsets count from 1 per (sensor, partition), 0 is none. Those that every child sends to
every other ten times a second are structs: they are made and decoded in a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.groups.membership import Claim, Election, ElectionAck, Leader, NodeFailed

__all__ = [
    "Ack",
    "Adopt",
    "Adopted",
    "Beat",
    "Claim",
    "Election",
    "ElectionAck",
    "Events",
    "Fenced",
    "Fetch",
    "Gap",
    "Guarantee",
    "Leader",
    "Loss",
    "Lost",
    "Message",
    "NodeFailed",
    "PaneClosed",
    "PanePartial",
    "PaneTaken",
    "Part",
    "Payload",
    "Probe",
    "Query",
    "Register",
    "Registered",
    "Relayed",
    "Resume",
    "Retire",
    "RootTime",
    "Roster",
    "Safe",
    "Send",
    "SensorHello",
    "SensorWelcome",
    "Sitting",
    "SlotDelta",
    "StopSending",
]

Guarantee = Literal["exactly-once", "at-least-once", "at-most-once"]


@dataclass(frozen=True, slots=True)
class Query:
    """A window over the events of all sensors: `aggregate` is a kind of `.aggregates`."""

    id: str
    aggregate: str
    size: int
    slide: int
    options: Mapping[str, Any] = field(default_factory=dict)
    keyed: bool = False


@dataclass(frozen=True, slots=True)
class Sitting:
    """From when on a sensor takes part, and until when; None: it still does. `said`: it has left by
    its own word, and lives until all it had is safe."""

    sensor: str
    start: int
    end: int | None = None
    said: bool = False


# Between sensors and children.


@dataclass(frozen=True, slots=True)
class Events:
    """Events `first`, `first` + 1, ... of a sensor in a partition. After the last one of them none
    before `boundary` follows. Without events it only moves the boundary: `first` is then the offset
    that the next event will have."""

    sensor: str
    partition: int
    epoch: int
    first: int
    times: NDArray[np.int64]
    values: NDArray[np.float64]
    boundary: int
    keys: Sequence[Any] | None = None
    replayed: bool = False
    """Sent before, to this owner or another."""
    late: int = 0
    """How many events the sensor refused so far because they came after their boundary."""
    newest: int = 0
    """No event so far is later than this."""
    rejected: int = 0
    """How many the sensor rejected so far, for their value or key."""


@dataclass(frozen=True, slots=True)
class Resume:
    """I own the partition: send what comes after `offset`. Events before the time `since` are not
    needed by anybody. A sensor obeys the largest (epoch, node)."""

    partition: int
    epoch: int
    node: str
    offset: int
    since: int = 0


@dataclass(frozen=True, slots=True)
class Fenced:
    """The partition is this node's: to an owner that was, or to a sensor that does not know, with
    the node's address."""

    partition: int
    epoch: int
    node: str
    addresses: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets up to `upto` are gone; `count` of those since the gap before are needed, none of them
    is later than the time `until`."""

    upto: int
    count: int
    until: int


@dataclass(frozen=True, slots=True)
class Lost:
    """You asked for what comes after `after`, if it is not older than `since`: these are gone."""

    sensor: str
    partition: int
    epoch: int
    after: int
    since: int
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class Safe:
    """Nobody will ask for the offsets up to this one again, nor for a boundary up to this one."""

    partition: int
    epoch: int
    node: str
    offset: int
    boundary: int = 0


@dataclass(frozen=True, slots=True)
class SensorHello:
    """From a sensor to any child: I want to take part, my first events are of about `time`. The
    child passes it on to the root. `s~7` takes the place of `s~3`: the same sensor, started again.
    One that takes part asks again now and then, to hear of owners that it has missed, and of the
    root's clock. `clock`: the sender's clock now; None: the root's is not asked for. `stamps`: its
    events get their times from that clock, `time` says nothing then. `end`: it leaves, and has no
    event of this time or later."""

    sensor: str
    time: int
    address: str = ""
    clock: int | None = None
    stamps: bool = False
    end: int | None = None


@dataclass(frozen=True, slots=True)
class SensorWelcome:
    """You take part from `start` on; earlier events are late. Send to the owners of the partitions;
    an empty `claims` says: ask again later. `end`: you take part no longer, as you asked."""

    group: str
    start: int
    claims: tuple[Claim, ...]
    addresses: Mapping[str, str]
    guarantee: Guarantee = "exactly-once"
    end: int | None = None


@dataclass(frozen=True, slots=True)
class RootTime:
    """From the root to a sensor, through the child that it asked: when its clock was at `asked`, or
    after that, the root's was at `at`."""

    sensor: str
    asked: int
    at: int


# Among the children of a group, and among the intermediates of a layer.


@dataclass(frozen=True, slots=True)
class Beat:
    """I am alive. `life` grows with every start of the process, `sent` is by the sender's clock;
    `claims` are those the sender knows of."""

    number: int
    sent: int
    life: int
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """From a child to another that it does not hear, through the root: are you there?"""

    asker: str
    node: str


@dataclass(frozen=True, slots=True)
class Relayed:
    """The answer, the same way: a beat for `to`."""

    to: str
    node: str
    beat: Beat


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets `first` to `last` of a slot are gone for ever; their events were of times from
    `since` to `until`, and `count` of them were needed."""

    first: int
    last: int
    since: int
    until: int
    count: int


class Part(msgspec.Struct, frozen=True, array_like=True):
    """One pane of one query in a slot. `touched`: the last offset that changed it."""

    query: str
    pane: int
    partial: Any
    touched: int
    newest: int
    """The latest time of its events."""
    refused: int = 0
    """Events of it that the query cannot take."""


class SlotDelta(msgspec.Struct, frozen=True, array_like=True):
    """A slot at `offset`: those of its panes that events after `base` have changed, whole."""

    partition: int
    sensor: str
    base: int
    offset: int
    boundary: int
    parts: tuple[Part, ...]
    losses: tuple[Loss, ...] = ()
    since: dict[str, int] = {}
    """Queries that came later, and from which time on they have all events."""
    lost: int = 0
    replayed: int = 0
    late: int = 0
    """Counts since the slot began."""
    seen: int = 0
    """The latest time of its events."""
    rejected: int = 0
    behind: dict[str, int] = {}
    refused: dict[str, int] = {}
    """More counts, the last two by query."""


class Ack(msgspec.Struct, frozen=True, array_like=True):
    """Of your life `life` I have all up to your payload `number`; 0: send all of it whole."""

    life: int
    number: int


class Payload(msgspec.Struct, frozen=True, array_like=True):
    """What changed in the sender's slots from its cut `base` to its cut `number`; base 0: all there
    is, number 0: the answer to a `Fetch`. It is a sign of life as a beat is. `claims`: those it
    knows of, for an owner that was started again may not know that it is one. `queries`: those it
    knows. `freed`: by query, up to where the root has all panes. `acks`: by peer, what it has of
    theirs."""

    number: int
    base: int
    life: int
    claims: tuple[Claim, ...]
    slots: tuple[SlotDelta, ...]
    queries: tuple[str, ...] = ()
    freed: dict[str, int] = {}
    acks: dict[str, Ack] = {}


@dataclass(frozen=True, slots=True)
class Fetch:
    """Give me all you have of these partitions, as a payload."""

    partitions: tuple[int, ...]


# Upward, and its answers.


@dataclass(frozen=True, slots=True)
class PanePartial:
    """What a partition comes to in a pane, and what is to be said about it."""

    partition: int
    partial: Any
    newest: int
    """The latest time of its events, 0 if there are none."""
    roster: int
    """The version of the roster it was closed by; of two states that of the newer one stands."""
    whole: bool = True
    """Whether the query was there before all of its events."""
    missing: int = 0
    """How many events that may belong to it are gone."""
    claims: tuple[Claim, ...] = ()
    """Of those whose states it is."""
    lost: int = 0
    """Events that are gone, the last of which may belong to it: each is told in one pane, and not
    at all if the root had that pane from an owner who had them."""
    replayed: int = 0
    late: int = 0
    refused: int = 0
    """Counts since the partition began."""


@dataclass(frozen=True, slots=True)
class PaneClosed:
    """From an owner to its parents, from an intermediate to those above."""

    group: str
    query: str
    pane: int
    partials: tuple[PanePartial, ...]
    failed: tuple[str, ...] = ()
    """The members of the group that the sender holds for dead."""


@dataclass(frozen=True, slots=True)
class PaneTaken:
    """I have these partitions of the pane. The root has all panes of the query, of this group, that
    end at `freed` or before: nobody needs them any more."""

    group: str
    query: str
    pane: int
    partitions: tuple[int, ...]
    freed: int


@dataclass(frozen=True, slots=True)
class StopSending:
    """This intermediate is dead. `life`: the one that ended."""

    failed: str
    life: int


# Between the root and everybody.


@dataclass(frozen=True, slots=True)
class Register:
    """I want to be a child or an intermediate; sent until it is answered, and by a child that hears
    of one it does not know. `life`: any number that no other start of this node has. `group`: the
    one to join, though it has been formed."""

    node: str
    role: Literal["child", "intermediate"]
    address: str = ""
    life: int = 0
    group: str = ""


@dataclass(frozen=True, slots=True)
class Registered:
    """Your place. For a child `members` are its group and `home` says whose each partition was when
    it was formed; for an intermediate `members` are its layer. `parents` are to be sent to, `below`
    sends to it. A node that comes back is told the same again, and all are when a child joins."""

    group: str
    members: tuple[str, ...]
    home: tuple[Claim, ...]
    parents: tuple[str, ...]
    below: tuple[str, ...]
    queries: tuple[Query, ...]
    roster: Roster
    freed: Mapping[str, int]
    addresses: Mapping[str, str]
    guarantee: Guarantee = "exactly-once"
    claims: tuple[Claim, ...] = ()
    """Who owns the partitions now, as far as the root knows."""
    homes: Mapping[int, str] = field(default_factory=dict)
    """To whom each partition goes back."""
    start: int = 0
    life: int = 0
    """The number that this start of yours gave itself, and the one that is larger than those of all
    starts before: clocks are set back, and devices come up without one."""


@dataclass(frozen=True, slots=True)
class Roster:
    """All sensors of the group; `version` grows with every change. Panes begin at `origin`. When
    all sensors have left, `through` says how far those of other groups are: so far it goes on."""

    group: str
    version: int
    origin: int
    sittings: tuple[Sitting, ...]
    through: int = 0


@dataclass(frozen=True, slots=True)
class Adopt:
    """A query that was registered while running; sent until it is answered. Panes before `begin`
    are of no use."""

    group: str
    query: Query
    begin: int = 0


@dataclass(frozen=True, slots=True)
class Adopted:
    """I have it; from the pane `first` on I shall have all events."""

    group: str
    query: str
    node: str
    first: int


@dataclass(frozen=True, slots=True)
class Retire:
    """The query is removed: forget it. Sent again to whoever still sends panes of it."""

    group: str
    query: str


Message = (
    Events
    | Resume
    | Fenced
    | Lost
    | Safe
    | SensorHello
    | SensorWelcome
    | RootTime
    | Beat
    | Payload
    | Probe
    | Relayed
    | Fetch
    | NodeFailed
    | Election
    | ElectionAck
    | Leader
    | PaneClosed
    | PaneTaken
    | StopSending
    | Register
    | Registered
    | Roster
    | Adopt
    | Adopted
    | Retire
)


@dataclass(frozen=True, slots=True)
class Send:
    """A command: carry this message to that node, sensor or root."""

    to: str
    message: Message
