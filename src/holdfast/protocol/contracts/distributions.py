"""The family of load distributions of section 6.5: bounded Pareto, with any shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgumentError

__all__ = ["Bounded", "Floats", "Quantile"]

Floats = NDArray[np.float64]
Quantile = Callable[[Floats], Floats]
"""Turns evenly spread shares of 1 into loads: a distribution function the other way round."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """(6.9): F(x) = (1 - (k/x)^a) / (1 - (k/T)^a) on [k, T]; a = -1 is uniform, lower heavier."""

    least: float
    most: float
    alpha: float

    def __post_init__(self) -> None:
        if not 0 < self.least < self.most < math.inf:
            raise InvalidArgumentError(
                f"[{self.least}, {self.most}]: no range of loads; give two above 0, ascending"
            )
        if not math.isfinite(self.alpha) or self.alpha == 0:
            raise InvalidArgumentError(f"alpha: {self.alpha} has no distribution; give another")

    def below(self, load: float) -> float:
        """The probability of a load of at most so much."""
        inside = min(max(load, self.least), self.most)
        ratio: float = (self.least / self.most) ** self.alpha
        return float((1 - (self.least / inside) ** self.alpha) / (1 - ratio))

    @property
    def mean(self) -> float:
        """(6.10), which has another form for alpha 1."""
        k, t, a = self.least, self.most, self.alpha
        scale = k**a / (1 - (k / t) ** a)
        if a == 1:
            return float(scale * math.log(t / k))
        return float(scale * a / (a - 1) * (k ** (1 - a) - t ** (1 - a)))

    def __call__(self, shares: Floats) -> Floats:
        ratio = (self.least / self.most) ** self.alpha
        drawn: Floats = self.least * (1 - shares * (1 - ratio)) ** (-1 / self.alpha)
        return drawn
