"""What the two proxies of a stream log, and what they say to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.pipeline.machine.tuples import Segment


@dataclass(frozen=True, slots=True)
class Reading:
    """The `number`-th reading of the device, from 1, and when it was taken in."""

    number: int
    key: Any
    value: Any
    stime: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the logs."""

    epoch: int
    segment: Segment
    last: int
    """The number of the newest reading up to here."""
    alone: bool = field(default=False, compare=False)
    """Whether it was shown without being in the other log."""


@dataclass(frozen=True, slots=True)
class Propose:
    """From the primary: my entry at `index`, or none: only that I am here."""

    epoch: int
    length: int
    """How many entries it has, and has shown."""
    shown: int
    index: int
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Has:
    """The answer: how many entries are in my log, and the newest."""

    epoch: int
    length: int
    last: Entry | None


@dataclass(frozen=True, slots=True)
class Hand:
    """From the standby: readings that it has taken in."""

    readings: tuple[Reading, ...]


TwinMessage = Propose | Has | Hand
