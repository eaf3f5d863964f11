"""What a proxy asks its shell to do."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.pipeline.machine.tuples import Segment
from simulator.standby.messages import Entry, TwinMessage


@dataclass(frozen=True, slots=True)
class Tell:
    """A command: carry this to the other proxy. It may be lost, repeated or overtaken."""

    message: TwinMessage


@dataclass(frozen=True, slots=True)
class Persist:
    """A command: write this to the log as the entry at `index`, in place of what is there if there
    is anything, then call `persisted`."""

    index: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Vow:
    """A command: write down that this is the epoch, then call `vowed`."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Show:
    """A command: this is final, publish it."""

    segment: Segment


Command = Tell | Persist | Vow | Show
