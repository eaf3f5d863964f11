"""What a load manager asks of its shell, to be done in this order.

What is to be persisted must be safe before anything after it is done. A crash may come between any
two.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.protocol.contracts.letters import Letter
from holdfast.protocol.contracts.records import Record
from holdfast.protocol.contracts.tasks import Epoch

__all__ = [
    "Command",
    "Fence",
    "Halt",
    "Keep",
    "Persist",
    "Prepare",
    "Resume",
    "Send",
    "Start",
    "Stop",
]


@dataclass(frozen=True, slots=True)
class Persist:
    record: Record


@dataclass(frozen=True, slots=True)
class Send:
    """One that binds must be kept, as it is sent, before it is."""

    to: str
    letter: Letter


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep the letter just received, as it came: it binds its sender."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Get a task's state from who runs it now, and follow: `prepared`, or `unable`."""

    task: str
    epoch: Epoch
    source: str


@dataclass(frozen=True, slots=True)
class Start:
    """Run a task from this bucket on."""

    task: str
    epoch: Epoch
    bucket: int


@dataclass(frozen=True, slots=True)
class Halt:
    """End the bucket in hand and begin no other: `halted`, with the first that was not begun."""

    task: str
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on after all."""

    task: str
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Stop:
    """Drop what runs, follows or is halted."""

    task: str
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Fence:
    """Have the task's readers refuse what is of a lower epoch: `fenced`, with the first bucket that
    they have not got; or `refused`, if they have heard of a higher one."""

    task: str
    epoch: Epoch


Command = Persist | Send | Keep | Prepare | Start | Halt | Resume | Stop | Fence
