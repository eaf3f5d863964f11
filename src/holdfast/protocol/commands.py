"""What a replica asks of whoever runs its stage. A replica keeps one or two states of the stage:
the base, which sees complete buckets only, and the fork, which makes previews."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.protocol.gates.order import Stretch
from holdfast.protocol.messages import Recalculate, Send, StateOffer, StatePiece

__all__ = [
    "Command",
    "CopyState",
    "Drop",
    "DropCopy",
    "Fork",
    "Install",
    "Rerun",
    "Restart",
    "SendPiece",
    "StartOver",
    "TakeCopy",
    "TakePiece",
    "Work",
]


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Process this with the base or the fork, then call `finished`."""

    stretch: Stretch
    tentative: bool


@dataclass(frozen=True, slots=True)
class Fork:
    """Fork the base."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop the fork."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Let the base begin anew, empty, with this bucket."""

    bucket: int


@dataclass(frozen=True, slots=True)
class Install:
    """Make the copy whose pieces were taken the state of the base, and it is safe: nothing before
    the bucket is needed."""

    bucket: int
    copy: int


@dataclass(frozen=True, slots=True)
class Rerun:
    """Calculate a bucket again, from the state before it, then call `rerun`; if that state is gone,
    do nothing."""

    reader: str
    asked: Recalculate


@dataclass(frozen=True, slots=True)
class StartOver:
    """Drop this node and make a new one that has lost its state: this one cannot go on."""


@dataclass(frozen=True, slots=True)
class CopyState:
    """Make a copy of the base under this number, then call `copied`."""

    copy: int


@dataclass(frozen=True, slots=True)
class SendPiece:
    """Send a peer a piece of a copy that has been made."""

    to: str
    copy: int
    number: int


@dataclass(frozen=True, slots=True)
class DropCopy:
    """Delete a copy that has been made: nobody takes it any more."""

    copy: int


@dataclass(frozen=True, slots=True)
class TakeCopy:
    """Make room for the pieces of this copy; those of any other are of no use."""

    offer: StateOffer


@dataclass(frozen=True, slots=True)
class TakePiece:
    """Keep this piece until the copy is installed."""

    piece: StatePiece


Command = (
    Send
    | Work
    | Fork
    | Drop
    | Restart
    | Install
    | Rerun
    | StartOver
    | CopyState
    | SendPiece
    | DropCopy
    | TakeCopy
    | TakePiece
)
