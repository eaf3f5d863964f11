"""Prediction of the next value of a stream from those seen lately (digest §3.9 a).

Approximate windows ask it how small the next result may be, or how big the next eviction. It keeps
moments, never values, and uses `math` alone.
"""

from __future__ import annotations

import math
from functools import lru_cache

from holdfast.errors import InvalidArgumentError

__all__ = ["LEAST", "Moments", "Sample", "half_width", "nearest_zero", "student_t"]

LEAST = 30
"""With fewer values than these nothing is predicted."""

Moments = tuple[int, float, float, int, float, float]
"""A sample as plain numbers: count, mean and squares of the past, then of the present."""

_ANYTHING = (-math.inf, math.inf)
_PRECISION = 1e-15
_LEADING_BITS = 7
# Gamma(x + 1/2) / (Gamma(x) sqrt(x)) is 1 and these over the powers of x.
_GAMMA_RATIO = (-1 / 8, 1 / 128, 5 / 1024, -21 / 32768, -399 / 262144)
_GREATEST_CONFIDENCE = 1 - 1e-12


@lru_cache(maxsize=4096)
def student_t(confidence: float, degrees: int) -> float:
    """The t with P(|T| <= t) = confidence, for Student's T with so many degrees of freedom.

    Newton from 0: the probability is concave in t, so the steps never pass the solution. Doubles
    cannot tell confidences within 1e-12 of 1 apart well, so these all count as 1 - 1e-12.
    """
    if not 0.0 < confidence < 1.0:
        raise InvalidArgumentError(
            f"student_t: confidence is {confidence!r}; give a number between 0 and 1"
        )
    if degrees < 1:
        raise InvalidArgumentError(f"student_t: degrees is {degrees!r}; give at least 1")
    confidence = min(confidence, _GREATEST_CONFIDENCE)
    beta = _beta(degrees)
    t = 0.0
    while True:
        step = _lacking(t, confidence, degrees, beta) / _density(t, degrees, beta)
        if step <= _PRECISION * t:
            return t
        t += step


def _beta(degrees: int) -> float:
    """The beta function of 1/2 and degrees/2."""
    half = degrees / 2
    if half < 100:
        return math.sqrt(math.pi) * math.gamma(half) / math.gamma(half + 0.5)
    # Gamma overflows here, and a difference of its logarithms loses digits; this series does not.
    ratio = 1.0
    for power, factor in enumerate(_GAMMA_RATIO, start=1):
        ratio += factor / half**power
    return math.sqrt(math.pi / half) / ratio


def _density(t: float, degrees: int, beta: float) -> float:
    """The density of |T| at t."""
    power = math.exp(-(degrees + 1) / 2 * math.log1p(t * t / degrees))
    return 2 * power / (math.sqrt(degrees) * beta)


def _lacking(t: float, confidence: float, degrees: int, beta: float) -> float:
    """confidence - P(|T| <= t), from the smaller argument of the incomplete beta function."""
    sides = degrees + t * t
    power = math.exp(-degrees / 2 * math.log1p(t * t / degrees))
    front = t * power / (math.sqrt(sides) * beta)
    if t * t <= degrees:
        return confidence - front * _series(0.5, degrees / 2, t * t / sides)
    return front * _series(degrees / 2, 0.5, degrees / sides) - (1 - confidence)


def _series(a: float, b: float, x: float) -> float:
    """The incomplete beta function without its front: terms all positive, geometric in the end."""
    term = total = 1 / a
    above, below = a + b, a + 1
    while term > total * _PRECISION / 10 or above * x > below:
        term *= x * above / below
        total += term
        above += 1
        below += 1
    return total


def half_width(count: int, squares: float, confidence: float) -> float:
    """How far from the mean of `count` values the next one is to be expected.

    `squares` is the sum of their squared distances from the mean. It is infinite while the spread
    is unknown: below two values, or if `squares` is not a number from 0 up.

    Student's t is taken for the greatest n <= count of a grid: every n below 128, then steps below
    1.6 %. So few are computed on the way through many counts, and the answer is a little too wide
    (below 0.1 %), never too narrow.
    """
    if count < 2 or not squares >= 0.0:
        return math.inf
    low_bits = max(count.bit_length() - _LEADING_BITS, 0)
    t = student_t(confidence, (count >> low_bits << low_bits) - 1)
    return t * math.sqrt(squares / (count - 1)) * math.sqrt(1 + 1 / count)


class Sample:
    """The values seen lately, as moments of two generations: constant memory.

    A NaN, an infinity, or values so large that their squares overflow make every interval infinite
    until the generation that holds them has left. Nothing here raises on any float.
    """

    __slots__ = ("_count", "_mean", "_past_count", "_past_mean", "_past_squares", "_squares")

    def __init__(self) -> None:
        self._past_count, self._past_mean, self._past_squares = 0, 0.0, 0.0
        self._count, self._mean, self._squares = 0, 0.0, 0.0

    def __len__(self) -> int:
        return self._past_count + self._count

    def observe(self, value: float, span: int) -> None:
        """Take a value in; at least the last `span` values stay, once so many came.

        The present generation becomes the past one when it holds max(LEAST, span) values, so the
        two hold less than twice that many.
        """
        # Welford's update, written out: this runs for each update of a stream.
        self._count = count = self._count + 1
        distance = value - self._mean
        self._mean = mean = self._mean + distance / count
        self._squares += distance * (value - mean)
        if count >= span and count >= LEAST:
            self._past_count, self._past_mean, self._past_squares = count, mean, self._squares
            self._count, self._mean, self._squares = 0, 0.0, 0.0

    def interval(self, confidence: float) -> tuple[float, float] | None:
        """The prediction interval of the next value; None below LEAST values."""
        count = self._past_count + self._count
        if count < LEAST:
            return None
        # Chan's merge of the two generations.
        share = self._count / count
        apart = self._mean - self._past_mean
        mean = self._past_mean + apart * share
        squares = self._past_squares + self._squares + apart * (self._past_count * share) * apart
        half = half_width(count, squares, confidence)
        low, high = mean - half, mean + half
        if math.isfinite(low) and math.isfinite(high):
            return low, high
        return _ANYTHING

    def saved(self) -> Moments:
        """The sample as plain numbers, for `restored`."""
        return (
            self._past_count,
            self._past_mean,
            self._past_squares,
            self._count,
            self._mean,
            self._squares,
        )

    @classmethod
    def restored(cls, saved: Moments) -> Sample:
        """The sample that `saved` was called on."""
        sample = cls()
        sample._past_count, sample._past_mean, sample._past_squares = saved[:3]
        sample._count, sample._mean, sample._squares = saved[3:]
        return sample


def nearest_zero(interval: tuple[float, float]) -> float:
    """How far from zero its nearest end is; 0.0 if it contains zero or is not finite."""
    low, high = interval
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.0
    return max(low, -high, 0.0)
