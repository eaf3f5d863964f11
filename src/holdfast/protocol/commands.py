"""What a replica asks of whoever runs its stage. A replica keeps one or two states of the stage:
the base, which sees complete buckets only, and the fork, which makes previews."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.protocol.gates.order import Stretch
from holdfast.protocol.messages import Recalculate, Send, StateReply

__all__ = [
    "Command",
    "CopyState",
    "Drop",
    "Fork",
    "Install",
    "Rerun",
    "Restart",
    "StartOver",
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
    """Make this the state of the base, and it is safe: nothing before the bucket is needed."""

    bucket: int
    state: Any


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
    """Send this reply with a copy of the base in it."""

    to: str
    reply: StateReply


Command = Send | Work | Fork | Drop | Restart | Install | Rerun | StartOver | CopyState
