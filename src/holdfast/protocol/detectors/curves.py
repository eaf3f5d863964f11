"""How unlikely a silence is, as the detectors count it: phi = -log10 P(the beat comes later still).

Two curves over z, by how many deviations the silence exceeds the mean interval. `normal` is the
formula of the paper, P = erfc(z / sqrt 2) / 2, to full precision however long the silence: where
erfc is 0 in floats its asymptotic series takes over. `logistic` is the approximation of it that
implementations in use have (Akka's); published values and customary thresholds are on its scale.
Its tail is thinner, so that it suspects a little sooner: at phi 8 after 5.2 deviations where the
normal distribution has 5.6. Neither is ever infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Final

from holdfast.errors import InvalidArgumentError

__all__ = ["CURVES", "logistic", "normal", "reach"]

SERIES_FROM: Final = 25.0
"""erfc is 0 in floats from 38 deviations on; from here on the series has 11 right digits."""


def normal(z: float) -> float:
    """phi of the normal distribution."""
    if z <= 0.0:
        return -math.log1p(-0.5 * math.erfc(-z / math.sqrt(2.0))) / math.log(10.0)
    if z < SERIES_FROM:
        return -math.log10(0.5 * math.erfc(z / math.sqrt(2.0)))
    square = z * z
    series = 1.0 - (1.0 - (3.0 - (15.0 - 105.0 / square) / square) / square) / square
    tail = math.log(z * math.sqrt(2.0 * math.pi)) - math.log(series)
    return (0.5 * square + tail) / math.log(10.0)


def logistic(z: float) -> float:
    """phi of the logistic approximation: log10(1 + exp x), without overflow."""
    x = z * (1.5976 + 0.070566 * z * z)
    return (max(x, 0.0) + math.log1p(math.exp(-abs(x)))) / math.log(10.0)


CURVES: Final[dict[str, Callable[[float], float]]] = {"logistic": logistic, "normal": normal}


@cache
def reach(curve: str, threshold: float) -> float:
    """After how many deviations phi is at the threshold, to a rounding."""
    if not 0.0 < threshold < 1e12:
        raise InvalidArgumentError(f"phi: threshold is {threshold}; give a number above 0, as 8")
    phi = CURVES[curve]
    low, high = -40.0, 1.0
    while phi(high) < threshold:
        high *= 2.0
    while low < (middle := (low + high) / 2.0) < high:
        if phi(middle) < threshold:
            low = middle
        else:
            high = middle
    return high
