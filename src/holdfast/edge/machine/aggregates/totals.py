"""Counts, sums and spreads: running totals of floats in twice a float's precision.

Values are added one by one in the order given (Knuth's TwoSum; what rounding takes away is
collected in a second float), whether an array of them is taken at once or one at a time: the same
values in other frames give the same bits. `np.sum`, which adds in pairs, would not.

A total that leaves the range of floats is the infinity that IEEE gives, and stays it: 1e308 + 1e308
- 1e308 is inf. Infinities of both signs are NaN. (1e16, 1, -1e16) is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Total = tuple[int, float, float]
"""How many values, and their sum as `high + low`."""
Moments = tuple[int, float, float, float, float, float]
"""How many values, the first of them, and of the distances from it the sum and the sum of squares,
each as `high + low`."""

NOTHING: Total = (0, 0.0, 0.0)
NO_MOMENTS: Moments = (0, 0.0, 0.0, 0.0, 0.0, 0.0)

SPLITTER = 134217729.0
"""2^27 + 1, of Veltkamp's splitting of a float into two halves whose products are exact."""


def add_many(total: Total, values: Floats) -> Total:
    """With an array of values, one after the other."""
    n, high, low = total
    with np.errstate(over="ignore", invalid="ignore"):
        high, low = _accumulate(high, low, values, None)
    return n + len(values), high, low


def add_few(total: Total, values: Iterable[float]) -> Total:
    """The same to the bit without an array: faster for a handful."""
    n, high, low = total
    for value in values:
        n += 1
        high, low = _step(high, low, value, 0.0)
    return (n, *_settle(high, low))


def combine(older: Total, newer: Total) -> Total:
    """The total of both."""
    if not newer[0]:
        return older
    if not older[0]:
        return newer
    high, low = _step(older[1], older[2] + newer[2], newer[1], 0.0)
    return (older[0] + newer[0], *_settle(high, low))


def read_sum(total: Total) -> float | None:
    return total[1] + total[2] if total[0] else None


def read_mean(total: Total) -> float | None:
    return (total[1] + total[2]) / total[0] if total[0] else None


def add_many_moments(moments: Moments, values: Floats) -> Moments:
    """With an array of values, one after the other."""
    if not len(values):
        return moments
    n, first, high, low, high_squares, low_squares = moments
    if not n:
        first = float(values[0])
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # distances + rests are the exact distances, squares + rests_of_squares their squares.
        distances = values - first
        back = distances - values
        rests = (values - (distances - back)) - (first + back)
        squares = distances * distances
        scaled = SPLITTER * distances
        upper = scaled - (scaled - distances)
        lower = distances - upper
        rests_of_squares = (
            lower * lower - ((squares - upper * upper) - 2.0 * upper * lower)
        ) + 2.0 * distances * rests
        high, low = _accumulate(high, low, distances, rests)
        high_squares, low_squares = _accumulate(
            high_squares, low_squares, squares, rests_of_squares
        )
    return n + len(values), first, high, low, high_squares, low_squares


def add_few_moments(moments: Moments, values: Iterable[float]) -> Moments:
    """The same to the bit without an array: faster for a handful."""
    n, first, high, low, high_squares, low_squares = moments
    for value in values:
        if not n:
            first = value
        n += 1
        distance = value - first
        back = distance - value
        rest = (value - (distance - back)) - (first + back)
        square = distance * distance
        scaled = SPLITTER * distance
        upper = scaled - (scaled - distance)
        lower = distance - upper
        rest_of_square = (
            lower * lower - ((square - upper * upper) - 2.0 * upper * lower)
        ) + 2.0 * distance * rest
        high, low = _step(high, low, distance, rest)
        high_squares, low_squares = _step(high_squares, low_squares, square, rest_of_square)
    return (n, first, *_settle(high, low), *_settle(high_squares, low_squares))


def combine_moments(older: Moments, newer: Moments) -> Moments:
    """Those of both, as distances from the first value of the older: exact but for one rounding."""
    if not newer[0]:
        return older
    if not older[0]:
        return newer
    n, first = newer[:2]
    if not all(map(math.isfinite, (*older[1:3], *newer[1:3]))):
        return older[0] + n, older[1], math.nan, 0.0, math.nan, 0.0
    move = Fraction(first) - Fraction(older[1])
    distances = _exact(newer[2:4])
    high, low = _split(_exact(older[2:4]) + distances + n * move)
    if not (math.isfinite(older[4]) and math.isfinite(newer[4])):
        return older[0] + n, older[1], high, low, math.inf, 0.0
    squares = _exact(older[4:]) + _exact(newer[4:]) + (2 * distances + n * move) * move
    return (older[0] + n, older[1], high, low, *_split(squares))


def read_variance(moments: Moments) -> float | None:
    """The sample variance, None of fewer than two values; NaN where a value or a distance between
    two values is infinite, inf where the square of a distance is."""
    n, first, high, _, high_squares, _ = moments
    if n < 2:
        return None
    if not (math.isfinite(first) and math.isfinite(high)):
        return math.nan
    if not math.isfinite(high_squares):
        return math.inf
    distances, squares = _exact(moments[2:4]), _exact(moments[4:])
    return max(0.0, _to_float((squares - distances * distances / n) / (n - 1)))


def _accumulate(
    high: float, low: float, values: Floats, rests: Floats | None
) -> tuple[float, float]:
    """`_step` over arrays: `values`, and with each of them what of it no float can hold."""
    sums = np.empty(len(values) + 1)
    sums[0] = high
    sums[1:] = values
    np.add.accumulate(sums, out=sums)
    before, after = sums[:-1], sums[1:]
    part = after - before
    errors = np.empty(len(values) + 1)
    errors[0] = low
    taken = errors[1:]
    np.add(before - (after - part), values - part, out=taken)
    if rests is not None:
        taken += rests
    high = float(sums[-1])
    if not math.isfinite(high):
        return _settle(high, 0.0)
    low = float(np.add.accumulate(errors)[-1])
    if not math.isfinite(low):
        # Within a rounding of the end of the range TwoSum itself may overflow.
        taken[~np.isfinite(taken)] = 0.0
        low = float(np.add.accumulate(errors)[-1])
    return high, low


def _step(high: float, low: float, value: float, rest: float) -> tuple[float, float]:
    after = high + value
    part = after - high
    taken = ((high - (after - part)) + (value - part)) + rest
    return after, low + taken if math.isfinite(taken) else low


def _settle(high: float, low: float) -> tuple[float, float]:
    """What is not finite stays so and has no rest; of the many NaNs there is one."""
    if math.isfinite(high):
        return high, low
    return (high, 0.0) if high == high else (math.nan, 0.0)


def _exact(pair: tuple[float, float]) -> Fraction:
    return Fraction(pair[0]) + Fraction(pair[1])


def _split(exact: Fraction) -> tuple[float, float]:
    high = _to_float(exact)
    return (high, _to_float(exact - Fraction(high))) if math.isfinite(high) else (high, 0.0)


def _to_float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
