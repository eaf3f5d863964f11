"""Series that suit approximate windows and series that do not, made up from a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

__all__ = ["SERIES", "make"]

Series = np.ndarray[Any, np.dtype[np.float64]]
SEED: Final = 20261118
DAYS: Final = 4
"""How many daily cycles a series has, whatever its length: windows are shorter than one."""


def _level(random: np.random.Generator, length: int) -> Series:
    return random.normal(100.0, 5.0, length)


def _sine(random: np.random.Generator, length: int) -> Series:
    day = np.sin(2 * np.pi * DAYS * np.arange(length) / length)
    return 100.0 + 80.0 * day + random.normal(0.0, 2.0, length)


def _pareto(random: np.random.Generator, length: int) -> Series:
    return 1.0 + random.pareto(1.5, length)


def _rising(random: np.random.Generator, length: int) -> Series:
    return np.linspace(10.0, 200.0, length) + random.normal(0.0, 1.0, length)


def _falling(random: np.random.Generator, length: int) -> Series:
    return np.linspace(200.0, 10.0, length) + random.normal(0.0, 1.0, length)


_MAKERS: Final[dict[str, Callable[[np.random.Generator, int], Series]]] = {
    "a level with noise": _level,
    "a daily sine": _sine,
    "Pareto, heavy tail": _pareto,
    "rising": _rising,
    "falling": _falling,
}
SERIES: Final = tuple(_MAKERS)
"""The names of the series; the first one suits all methods."""


def make(name: str, length: int) -> list[float]:
    return [float(value) for value in _MAKERS[name](np.random.default_rng(SEED), length)]
