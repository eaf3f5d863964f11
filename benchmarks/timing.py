"""Timing alternatives against one another in one run.

Repeats go round robin over the alternatives, so that a machine that slows down slows all of them,
and a ratio is taken within each round before the rounds are summed up.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Alternative", "Spread", "Timings", "measure"]


def _nothing() -> tuple[()]:
    return ()


@dataclass(frozen=True)
class Alternative:
    """Something to time: `run(*prepare())`, of which only `run` is timed, does `operations`."""

    name: str
    run: Callable[..., object]
    operations: int = 1
    prepare: Callable[[], tuple[object, ...]] = _nothing


@dataclass(frozen=True)
class Spread:
    """A figure over the repeats: its median, lowest and highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread:
        return cls(statistics.median(figures), min(figures), max(figures))

    @property
    def range(self) -> tuple[float, float]:
        """What `Report.claim` takes as `spread`."""
        return (self.low, self.high)


class Timings:
    """Seconds of each alternative in each round."""

    def __init__(self, seconds: dict[str, list[float]], operations: dict[str, int]) -> None:
        self._seconds = seconds
        self._operations = operations

    def seconds(self, name: str) -> Spread:
        return Spread.of(self._seconds[name])

    def rate(self, name: str) -> Spread:
        """Operations per second."""
        return Spread.of(self._rates(name))

    def ratio(self, name: str, peer: str) -> Spread:
        """How many times as many operations per second `name` does as `peer`, round by round."""
        pairs = zip(self._rates(name), self._rates(peer), strict=True)
        return Spread.of([mine / theirs for mine, theirs in pairs])

    def _rates(self, name: str) -> list[float]:
        return [self._operations[name] / seconds for seconds in self._seconds[name]]


def measure(
    alternatives: Iterable[Alternative],
    *,
    repeats: int = 5,
    warmups: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Timings:
    """Time all alternatives `repeats` times, one after the other in each round."""
    alternatives = list(alternatives)
    seconds: dict[str, list[float]] = {alternative.name: [] for alternative in alternatives}
    if len(seconds) != len(alternatives):
        raise ValueError("two alternatives have the same name")
    for round_number in range(-warmups, repeats):
        for alternative in alternatives:
            arguments = alternative.prepare()
            # No alternative pays for the garbage of the one before it.
            gc.collect()
            start = clock()
            alternative.run(*arguments)
            elapsed = clock() - start
            if round_number >= 0:
                seconds[alternative.name].append(elapsed)
    return Timings(seconds, {each.name: each.operations for each in alternatives})
