"""Least, greatest, range and the k greatest values.

None of them depends on the order of the values. 0.0 and -0.0 are one value here, 0.0, lest the bits
depend on which came first.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Extremes = tuple[float, float] | None
"""The least and the greatest value."""
Top = tuple[float, ...]
"""The k greatest, the greatest first."""


def add_many_extremes(extremes: Extremes, values: Floats) -> Extremes:
    if not len(values):
        return extremes
    # Adding 0.0 makes -0.0 to 0.0.
    return combine_extremes(extremes, (float(values.min()) + 0.0, float(values.max()) + 0.0))


def add_few_extremes(extremes: Extremes, values: Iterable[float]) -> Extremes:
    values = list(values)
    if not values:
        return extremes
    return combine_extremes(extremes, (min(values) + 0.0, max(values) + 0.0))


def combine_extremes(older: Extremes, newer: Extremes) -> Extremes:
    if older is None or newer is None:
        return newer if older is None else older
    return min(older[0], newer[0]), max(older[1], newer[1])


def add_many_greatest(top: Top, values: Floats, k: int) -> Top:
    if len(values) > 2 * k:
        values = np.partition(values, len(values) - k)[-k:]
    return add_top(top, values.tolist(), k)


def add_top(top: Top, values: Iterable[float], k: int) -> Top:
    return combine_top(top, tuple(value + 0.0 for value in values), k)


def combine_top(older: Top, newer: Top, k: int) -> Top:
    return tuple(sorted(older + newer, reverse=True)[:k])


def read_minimum(extremes: Extremes) -> float | None:
    return None if extremes is None else extremes[0]


def read_maximum(extremes: Extremes) -> float | None:
    return None if extremes is None else extremes[1]


def read_range(extremes: Extremes) -> float | None:
    """0.0 of one value, an infinite one too; inf where the distance leaves the range of floats."""
    if extremes is None:
        return None
    least, greatest = extremes
    return 0.0 if least == greatest else greatest - least


def read_top(top: Top) -> list[float] | None:
    return list(top) or None
