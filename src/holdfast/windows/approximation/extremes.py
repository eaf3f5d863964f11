"""The distribution of block extremes, fitted to a sample of them (digest §3.9 b).

Approximate max-like windows ask it for the range of future results. It takes a sample and answers
with a distribution; it never keeps values, and uses `math` alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.errors import InvalidArgumentError

__all__ = ["Gev", "fit_gev"]

_EULER = 0.5772156649015329
_GUMBEL = 1e-18
"""Shapes nearer to zero than this make no difference in double precision."""


@dataclass(frozen=True, slots=True)
class Gev:
    """The generalised extreme value distribution; a shape above 0 has a heavy upper tail.

    SciPy's `genextreme` calls the negative of this shape `c`.
    """

    location: float
    scale: float
    shape: float

    def quantile(self, p: float) -> float:
        """The value that a draw stays below with probability p, for p between 0 and 1."""
        if not 0.0 < p < 1.0:
            raise InvalidArgumentError(f"quantile: p is {p!r}; give a number between 0 and 1")
        reduced = -math.log(-math.log(p))
        if abs(self.shape) < _GUMBEL:
            return self.location + self.scale * reduced
        return self.location + self.scale * math.expm1(self.shape * reduced) / self.shape

    @property
    def end_point(self) -> float | None:
        """Where it ends: above if the shape is below 0, below if above; None if nowhere."""
        return None if self.shape == 0 else self.location - self.scale / self.shape

    def bounds(self, confidence: float) -> tuple[float, float]:
        """The range of draws: the end point on its side, the quantile of confidence elsewhere."""
        low, high = self.quantile(1 - confidence), self.quantile(confidence)
        if self.end_point is None:
            return low, high
        return (low, self.end_point) if self.shape < 0 else (self.end_point, high)


def fit_gev(sample: Sequence[float]) -> Gev | None:
    """Fit by probability-weighted moments (Hosking, Wallis and Wood 1985).

    None if there is nothing to fit: below three values, all equal, one or their range not finite.
    The ratio of the moments lies between 1/2 and 1 for every sample, hence the shape between -3.31
    and 0.98: the gamma function is never near its pole.
    """
    ordered = sorted(sample)
    # Sorting leaves a NaN anywhere, so each value is looked at.
    if len(ordered) < 3 or not all(map(math.isfinite, ordered)):
        return None
    least, extent = ordered[0], ordered[-1] - ordered[0]
    if not 0.0 < extent < math.inf:
        return None
    # Moments of values moved to [0, 1] lose no digits to a far location or a tiny scale.
    b0, b1, b2 = _weighted_moments([(value - least) / extent for value in ordered])
    c = (2 * b1 - b0) / (3 * b2 - b0) - math.log(2) / math.log(3)
    k = 7.8590 * c + 2.9554 * c * c
    scale = (2 * b1 - b0) * _over_halving(k) / math.gamma(1 + k)
    location = b0 + scale * _gamma_slope(k)
    fitted = Gev(least + extent * location, extent * scale, -k)
    return fitted if fitted.scale > 0 and math.isfinite(fitted.location) else None


def _weighted_moments(ordered: Sequence[float]) -> tuple[float, float, float]:
    """The unbiased estimates of E[X F(X)^r] for r = 0, 1, 2, of at least three values."""
    n = len(ordered)
    b0 = math.fsum(ordered) / n
    b1 = math.fsum(rank * x for rank, x in enumerate(ordered)) / (n * (n - 1))
    b2 = math.fsum(rank * (rank - 1) * x for rank, x in enumerate(ordered))
    return b0, b1, b2 / (n * (n - 1) * (n - 2))


def _over_halving(k: float) -> float:
    """k / (1 - 2^-k), and its limit near 0."""
    return 1 / math.log(2) if abs(k) < _GUMBEL else -k / math.expm1(-k * math.log(2))


def _gamma_slope(k: float) -> float:
    """(Gamma(1 + k) - 1) / k; near 0 by Taylor's series, where the difference has few digits."""
    if abs(k) < 1e-5:
        return -_EULER + k * (_EULER**2 / 2 + math.pi**2 / 12)
    return (math.gamma(1 + k) - 1) / k
