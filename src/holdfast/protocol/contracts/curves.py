"""What one resource costs as it fills up: convex, increasing, and defined past saturation too.

A participant's costs are private. They are in whatever money it counts in; prices are slopes of
these curves (price ↔ load, section 1.3 of the digest).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from holdfast.errors import InvalidArgumentError

__all__ = ["Curve", "check_curve", "points", "power", "queueing"]

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
