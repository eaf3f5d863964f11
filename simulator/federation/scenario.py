"""A simulated federation: who is in it, what they have agreed upon, and what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.federation.machine import SECOND, Contract, Cost, Load, Rules, Task
from simulator.sharing.scenario import Weather

BUCKET = SECOND // 5
"""The span of a bucket, and how often there is a new one."""


@dataclass(frozen=True, slots=True)
class Participant:
    cost: Cost
    tasks: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Crash:
    """A participant ends at this time, and is started again so long after, or never."""

    name: str
    at: int
    back: int | None = SECOND


@dataclass(frozen=True, slots=True)
class StepCrash:
    """A participant ends before it does this one of its commands, counted from its beginning."""

    name: str
    step: int
    back: int | None = SECOND


@dataclass(frozen=True, slots=True)
class Cut:
    """Two participants do not hear of each other for a while; readers hear of both."""

    one: str
    other: str
    at: int
    length: int


@dataclass(frozen=True, slots=True)
class Pause:
    """A load manager does not run for a while; its tasks do, and its letters wait."""

    name: str
    at: int
    length: int


@dataclass(frozen=True, slots=True)
class Step:
    """The date of a participant's machine is set forward, or back; seen when it starts anew."""

    name: str
    at: int
    by: int


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Tasks of others do not run at a participant from then on, though it starts them."""

    name: str
    at: int
    length: int


@dataclass(frozen=True, slots=True)
class Change:
    """From then on a task takes this much, wherever it runs."""

    at: int
    task: str
    load: Load


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    participants: Mapping[str, Participant]
    contracts: Sequence[Contract]
    rules: Rules
    weather: Weather = field(default_factory=Weather)
    crashes: Sequence[Crash] = ()
    step_crash: StepCrash | None = None
    cuts: Sequence[Cut] = ()
    changes: Sequence[Change] = ()
    pauses: Sequence[Pause] = ()
    steps: Sequence[Step] = ()
    breakdowns: Sequence[Breakdown] = ()
    cheats: Mapping[str, str] = field(default_factory=dict)
    """How a participant cheats, by its name."""
    replays: float = 0.0
    """How often a letter is sent again later on, by somebody who has recorded it."""
    unable: float = 0.0
    """How often a task does not start where it should."""
    end: int = 30 * SECOND

    @property
    def is_steady(self) -> bool:
        """Whether nobody crashes, cheats or is held up, and nobody is cut off."""
        faults = (self.crashes, self.cuts, self.pauses, self.breakdowns, self.cheats)
        return not any(faults) and self.step_crash is None
