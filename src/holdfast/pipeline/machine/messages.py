"""Messages between replicas, sources and clients.

Any message may be lost, repeated or overtaken: every one of them can be sent again without harm,
and a feed is numbered, so that a reader sees what it missed and subscribes anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.pipeline.machine.sharing.messages import Word
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Segment


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
    """I have lost everything: make a copy of your state for me, or say how far it is. One of a
    state before `since` is of no use: what follows it is kept no longer."""

    since: int


@dataclass(frozen=True, slots=True)
class StateOffer:
    """A copy of the state of a replica after all stable buckets before `bucket`, in pieces."""

    copy: int
    """Its number; 0 if there is none, for the replica has lost its own state."""
    pieces: int = -1
    """How many there are; -1 while the copy is being made."""
    size: int = 0
    """Bytes of the whole copy; while it is being made, those that are there."""
    bucket: int = 0
    consistent_from: int = 0
    contents: Any = None
    """Description of the pieces, for the process that takes them."""


@dataclass(frozen=True, slots=True)
class PieceRequest:
    """Send me these pieces of a copy."""

    copy: int
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StatePiece:
    """One piece of a copy."""

    copy: int
    number: int
    data: Any


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Send me what you have published of this stream just before this boundary."""

    stream: str
    before: int


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Segments of a stable line that end at `before`, without a hole; `start`: where the oldest of
    the line begins that follow each other up to there."""

    stream: str
    before: int
    start: int
    segments: tuple[Segment, ...]


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
    | StateOffer
    | PieceRequest
    | StatePiece
    | LogRequest
    | LogPiece
    | Word
)


@dataclass(frozen=True, slots=True)
class Send:
    """A command: carry this message to that replica, source or client."""

    to: str
    message: Message
