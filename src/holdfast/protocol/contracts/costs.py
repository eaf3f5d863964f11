"""What a participant's load costs it: its private type, from which all its decisions follow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.contracts.curves import Curve, check_curve, queueing
from holdfast.protocol.contracts.loads import NOTHING, Load

__all__ = ["Cost", "Costs", "check_cost", "is_overloaded", "marginal", "unit_marginal", "utility"]

Cost = Callable[[Load], float]
"""Of all the load that a participant has at once."""

LINES = (Load(1, 0), Load(0, 1), Load(1, 1), Load(1, 0.25), Load(0.25, 1))
"""Directions in which a cost of one's own is checked."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The sum of a curve for each resource, as the document's (7.1)."""

    cpu: Curve = field(default_factory=queueing)
    bandwidth: Curve = field(default_factory=queueing)

    def __call__(self, load: Load) -> float:
        return self.cpu(load.cpu) + self.bandwidth(load.bandwidth)


def check_cost(cost: Cost, upto: float = 2.0) -> None:
    """Raise unless it increases and is convex along lines from no load, and between them."""
    for line in LINES:
        name = f"cost along cpu {line.cpu:g}, bandwidth {line.bandwidth:g}"
        _check_line(name, cost, NOTHING, line, upto)
    for start, line in ((Load(upto, 0), Load(0, 1)), (Load(0, upto), Load(1, 0))):
        name = f"cost from cpu {start.cpu:g}, bandwidth {start.bandwidth:g}"
        _check_line(name, cost, start, line, upto)


def _check_line(place: str, cost: Cost, start: Load, line: Load, upto: float) -> None:
    check_curve(place, lambda share: cost(start + line * share), upto)


def marginal(cost: Cost, task: Load, rest: Load) -> float:
    """(6.2): what a task adds to the cost of the rest, which does not contain it."""
    return cost(rest + task) - cost(rest)


def unit_marginal(cost: Cost, task: Load, rest: Load, units: float) -> float:
    if not (math.isfinite(units) and units > 0):
        raise InvalidArgumentError(f"units: {units} of a task make no price; give more than 0")
    return marginal(cost, task, rest) / units


def utility(cost: Cost, load: Load, received: float) -> float:
    """(6.3): payments received, less those made, less the cost of all that runs here."""
    return received - cost(load)


def is_overloaded(cost: Cost, load: Load, capacity: Load) -> bool:
    """Costs more than the most that one has chosen to bear."""
    return cost(load) > cost(capacity)
