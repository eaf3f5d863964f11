"""What replicas, sources and clients say to each other.

Any message may be lost, repeated or overtaken: every one of them can be sent again without harm,
and a feed is numbered, so that a reader sees what it missed and subscribes anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.protocol.sharing.messages import Word
from holdfast.protocol.states import State
from holdfast.tuples import Segment

__all__ = [
    "Again",
    "AuthGrant",
    "AuthReject",
    "AuthRelease",
    "AuthRequest",
    "Feed",
    "Gap",
    "Heartbeat",
    "Item",
    "Message",
    "Preview",
    "Progress",
    "Read",
    "RecDone",
    "Recalculate",
    "Send",
    "Stable",
    "StateReply",
    "StateRequest",
    "Subscribe",
    "Undo",
    "Unsubscribe",
    "Vitals",
]


@dataclass(frozen=True, slots=True)
class Stable:
    """The next piece of the stable line."""

    segment: Segment


@dataclass(frozen=True, slots=True)
class Preview:
    """Tentative rows for a piece that the stable line has not reached."""

    segment: Segment


@dataclass(frozen=True, slots=True)
class Undo:
    """All previews so far are withdrawn: what is before this time stands, nothing else does."""

    boundary: int


@dataclass(frozen=True, slots=True)
class RecDone:
    """The stable line has reached everything that was previewed."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The stable line goes on here: what is between it and the reader's place is no longer kept."""

    start: int


@dataclass(frozen=True, slots=True)
class Again:
    """A piece of the stable line, calculated for the `attempt`-th time since it was first sent."""

    segment: Segment
    attempt: int


Item = Stable | Preview | Undo | RecDone | Gap | Again


@dataclass(frozen=True, slots=True)
class Feed:
    """The `number`-th message of a subscription, from 0."""

    stream: str
    subscription: int
    number: int
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Send me this stream from the boundary `after` on.

    `shown`: up to where I have seen previews beyond that, `after` if none; they are not sent again.
    `previews`: whether I want any. `standing`: whether those that I have seen have not been
    withdrawn. The newest `subscription` of a reader replaces its others.
    """

    stream: str
    subscription: int
    after: int
    shown: int
    previews: bool = True
    standing: bool = True


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    stream: str
    subscription: int


@dataclass(frozen=True, slots=True)
class Read:
    """Acknowledgement of reading: the subscription has been read up to the boundary. The publisher
    may send more. Heartbeats repeat it, in case it is lost."""

    stream: str
    subscription: int
    boundary: int


@dataclass(frozen=True, slots=True)
class Recalculate:
    """Nobody agrees with you, or with anybody: calculate the bucket that starts here again."""

    stream: str
    start: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Progress:
    """One stream as its replica sees it."""

    state: State
    end: int
    """Its stable boundary."""
    start: int = 0
    """What was before this is kept no longer."""
    subscription: int = -1
    """The asker's subscription, -1 if there is none, and how many messages it was sent."""
    sent: int = 0
    previewed: int = 0
    """Up to where it has published anything, be it previews."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Are you there? `acks`: up to which boundary of each stream the asker needs nothing more.
    `sent`: when, by the asker's clock. `read`: how far it has read the streams of the asked one."""

    acks: Mapping[str, int]
    sent: int = 0
    read: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Vitals:
    """The answer to the heartbeat that was `sent` then."""

    streams: Mapping[str, Progress]
    sent: int = 0


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """May I reconcile now, while you go on serving?"""


@dataclass(frozen=True, slots=True)
class AuthGrant:
    """Yes; I shall not begin before you are done."""


@dataclass(frozen=True, slots=True)
class AuthReject:
    """No; ask again later."""


@dataclass(frozen=True, slots=True)
class AuthRelease:
    """I am done: you are free of your promise."""


@dataclass(frozen=True, slots=True)
class StateRequest:
    """I have lost everything: give me your state. `number` is for the answer."""

    number: int


@dataclass(frozen=True, slots=True)
class StateReply:
    """The state of a replica after all stable buckets before `bucket`, with its stable lines."""

    number: int
    bucket: int
    consistent_from: int
    state: Any
    lines: Mapping[str, tuple[Segment, ...]]


Message = (
    Subscribe
    | Unsubscribe
    | Read
    | Recalculate
    | Feed
    | Heartbeat
    | Vitals
    | AuthRequest
    | AuthGrant
    | AuthReject
    | AuthRelease
    | StateRequest
    | StateReply
    | Word
)


@dataclass(frozen=True, slots=True)
class Send:
    """A command: carry this message to that replica, source or client."""

    to: str
    message: Message
