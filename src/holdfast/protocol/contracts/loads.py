"""How much a task takes, and how partners make one number of it.

A load has several resources, each as a share of what the participant has of it: 0.25 of `cpu` is a
quarter of its cores. Money is paid by unit of load, so partners write into their contract what a
unit of each resource counts: that is `Units`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.errors import InvalidArgumentError

__all__ = ["NOTHING", "Load", "Units", "total"]


@dataclass(frozen=True, slots=True)
class Load:
    """Of one task or of many; never negative, may be more than there is."""

    cpu: float = 0.0
    bandwidth: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cpu", "bandwidth"):
            amount = getattr(self, name)
            if not (math.isfinite(amount) and amount >= 0):
                raise InvalidArgumentError(f"load: {name} {amount!r} is no amount; give 0 or more")

    def __add__(self, other: Load) -> Load:
        return Load(self.cpu + other.cpu, self.bandwidth + other.bandwidth)

    def __sub__(self, other: Load) -> Load:
        """What is left; rounding never makes it negative."""
        return Load(max(0.0, self.cpu - other.cpu), max(0.0, self.bandwidth - other.bandwidth))

    def __mul__(self, factor: float) -> Load:
        return Load(self.cpu * factor, self.bandwidth * factor)


NOTHING = Load()


@dataclass(frozen=True, slots=True)
class Units:
    """What a share of each resource counts: a load's units are their weighted sum."""

    cpu: float = 1.0
    bandwidth: float = 0.0

    def __post_init__(self) -> None:
        weights = (self.cpu, self.bandwidth)
        if not all(math.isfinite(each) and each >= 0 for each in weights) or not any(weights):
            raise InvalidArgumentError(
                f"units: {weights} say nothing; give weights of 0 or more, one of them above 0"
            )

    def of(self, load: Load) -> float:
        return self.cpu * load.cpu + self.bandwidth * load.bandwidth


def total(loads: Iterable[Load]) -> Load:
    """Their sum, the same in whatever order they come."""
    every = list(loads)
    return Load(math.fsum(each.cpu for each in every), math.fsum(e.bandwidth for e in every))
