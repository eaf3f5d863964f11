"""Costs of a participant's load, the load of tasks, and smoothed measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from holdfast.errors import InvalidArgumentError

# What one resource costs as it fills up: convex, increasing, and defined past saturation too.
#
# A participant's costs are private. They are in whatever money it counts in; prices are slopes of
# these curves (price ↔ load, section 1.3 of the digest).

Curve = Callable[[float], float]
"""Cost by share of a resource in use."""

STEPS = 256
TOLERANCE = 1e-9


def queueing(knee: float = 0.95, scale: float = 1.0) -> Curve:
    """x / (1 - x), the document's (7.1): how many wait or are served in an M/M/1 queue.

    It has no value at 1 and makes no sense beyond, where overload is reported all the same. From
    the knee on it goes on as its own parabola there: value, slope and bend are the same at the
    knee, and more load costs more than proportionally however much there is.
    """
    if not 0 < knee < 1:
        raise InvalidArgumentError(f"knee: {knee} is not between 0 and 1")
    _check_scale(scale)
    left = 1 - knee
    value, slope, bend = knee / left, 1 / left**2, 2 / left**3

    def cost(share: float) -> float:
        if share <= knee:
            return scale * share / (1 - share)
        over = share - knee
        return scale * (value + slope * over + bend * over * over / 2)

    return cost


def power(scale: float = 1.0, exponent: float = 2.0) -> Curve:
    """scale · share^exponent."""
    _check_scale(scale)
    if not (math.isfinite(exponent) and exponent >= 1):
        raise InvalidArgumentError(f"exponent: {exponent} is not convex; give 1 or more")
    return lambda share: scale * share**exponent


def points(given: Sequence[tuple[float, float]]) -> Curve:
    """Straight lines between points of (share, cost); the last line goes on for ever."""
    if len(given) < 2:
        raise InvalidArgumentError(f"points: {len(given)} make no line; give two or more")
    if given[0][0] != 0:
        raise InvalidArgumentError(f"points: begin at share {given[0][0]}; give a point at 0")
    slopes = []
    for (left, low), (right, high) in pairwise(given):
        if right <= left:
            raise InvalidArgumentError(f"points: share {right} follows {left}; give them ascending")
        slopes.append((high - low) / (right - left))
    if slopes[0] <= 0:
        raise InvalidArgumentError("points: the first line does not rise; costs increase with load")
    for (share, _), before, after in zip(given[1:], slopes, slopes[1:], strict=False):
        if after < before:
            raise InvalidArgumentError(
                f"points: at share {share} it gets flatter; convex costs never do"
            )

    def cost(share: float) -> float:
        found = max(at for at, (left, _) in enumerate(given[:-1]) if share >= left)
        return given[found][1] + slopes[found] * (share - given[found][0])

    return cost


def check_curve(place: str, curve: Curve, upto: float = 2.0) -> None:
    """Raise unless it is finite, increases and is convex, at so many points up to `upto`.

    A curve that is wrong only between them is not found out.
    """
    costs = [curve(upto * step / STEPS) for step in range(STEPS + 1)]
    if not all(map(math.isfinite, costs)):
        at = next(step for step, cost in enumerate(costs) if not math.isfinite(cost))
        raise InvalidArgumentError(
            f"{place}: has no value at share {upto * at / STEPS:g}; define it up to {upto:g}"
        )
    size = max(map(abs, costs)) or 1.0
    rises = [after - before for before, after in pairwise(costs)]
    for step, rise in enumerate(rises):
        share = upto * step / STEPS
        if rise < -TOLERANCE * size:
            raise InvalidArgumentError(f"{place}: falls at share {share:g}; costs never do")
        if step and rise < rises[step - 1] - TOLERANCE * size:
            raise InvalidArgumentError(
                f"{place}: is not convex at share {share:g}: more load gets cheaper there, so "
                "that load would flock; contracts need convex costs"
            )
    if rises[-1] <= 0:
        raise InvalidArgumentError(f"{place}: does not rise up to share {upto:g}; costs increase")


def _check_scale(scale: float) -> None:
    if not (math.isfinite(scale) and scale > 0):
        raise InvalidArgumentError(f"scale: {scale} is no price; give more than 0")


# How much a task takes, and how partners make one number of it.
#
# A load has several resources, each as a share of what the participant has of it: 0.25 of `cpu` is
# a quarter of its cores. Money is paid by unit of load, so partners write into their contract what
# a unit of each resource counts: that is `Units`.


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


class Smoothed:
    """An exponential moving average over a window: after so long, 63 % of a step is seen."""

    def __init__(self, window: int) -> None:
        """In microseconds."""
        if window <= 0:
            raise InvalidArgumentError(f"window: {window} is too short; give more")
        self.window = window
        self.load: Load | None = None
        """None until something was measured."""
        self._at = 0

    def measure(self, load: Load, now: int) -> Load:
        """What was measured since the last time; an older time counts as now."""
        if self.load is None:
            self.load = load
        else:
            weight = -math.expm1(-max(0, now - self._at) / self.window)
            self.load = self.load * (1 - weight) + load * weight
        self._at = max(self._at, now)
        return self.load
