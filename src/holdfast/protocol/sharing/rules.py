"""What is promised for each tuple, and how long things may take. Times are in microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from holdfast.errors import InvalidArgumentError

__all__ = ["Guarantee", "Rules"]


class Guarantee(Enum):
    """What holds for each tuple at the sink."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, slots=True)
class Rules:
    """The same for all replicas of a plan."""

    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    hops: int = 1
    """A tuple survives when so many replicas in a row on its way fail together."""
    capacity: int = 1024
    """How many tuples of a source may be under way, and how many a replica holds."""
    period: int = 100_000
    """Between two pings."""
    threshold: float = 8.0
    """The phi from which silence is suspicious."""
    missed: int = 2
    """So many pings in a row may go unanswered all the same."""
    retry: int = 50_000
    """Until what was not answered is said again."""
    nudge: int = 500_000
    """The same for what was received, and is not done for so long."""
    patience: int = 1_000_000
    """How long one who comes back waits for colleagues who do not answer."""
    linger: int = 0
    """How long to gather what goes to the same replica into one packet."""

    def __post_init__(self) -> None:
        for name in ("hops", "capacity", "period", "missed", "retry", "nudge", "patience"):
            if getattr(self, name) < 1:
                raise InvalidArgumentError(
                    f"sharing: {name} is {getattr(self, name)}; give at least 1"
                )
        if self.linger < 0:
            raise InvalidArgumentError(f"sharing: linger is {self.linger}; give 0 or more")
