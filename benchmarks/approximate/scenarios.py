"""The three scenarios: what a window aggregates, how it slides, and what it should answer.

The exact answers come from NumPy, not from another window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from holdfast.windows import Monoid, Policy, monoids, policies

__all__ = ["HOPS", "Hop", "Scenario", "average", "hopping", "peak", "rolling_max"]

Begins = np.ndarray[Any, np.dtype[np.int64]]
SEED: Final = 20261117


@dataclass(frozen=True)
class Scenario:
    """A window over a stream of known length."""

    monoid: Monoid[Any, Any, Any]
    policy: Policy
    begins: Begins
    """For each update the number of the first one that the exact window then holds."""
    settled: int
    """After how many updates one window length has passed since the first eviction; with hops,
    since the thirtieth."""
    exact: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
    """The right answers over a stream."""
    read: Callable[[Any], float]
    """The number that answers a state: of a mean, its sum."""
    before_slide: Callable[[int], None] = lambda _updates: None


def average(window: int, updates: int) -> Scenario:
    """The mean of the newest updates."""
    begins = np.maximum(np.arange(updates) + 1 - window, 0)
    return Scenario(
        monoids.mean,
        policies.last(window),
        begins,
        2 * window + 1,
        lambda values: _means(values, begins),
        _sum,
    )


def peak(window: int, updates: int) -> Scenario:
    """The maximum of the newest updates; what precedes it is evicted."""
    policy = Policy(
        window_invariant=lambda part: part.size <= window,
        eviction_invariant=lambda candidate, after, _before: candidate.value <= after.value,
    )
    begins = np.maximum(np.arange(updates) + 1 - window, 0)
    return Scenario(
        monoids.max,
        policy,
        begins,
        2 * window + 1,
        lambda values: rolling_max(values, window),
        float,
    )


@dataclass(frozen=True)
class Hop:
    """How a window hops: by how much, and who counts."""

    spread: float
    """The standard deviation of the sizes, as a part of the window."""
    counted: bool
    """Whether the window's own size tells when and how much leaves; otherwise the stream does."""


HOPS: Final = {
    "constant": Hop(0.0, True),
    "normal, told by the stream": Hop(100 / 2_592_000, False),
    "normal, told by the window's size": Hop(100 / 2_592_000, True),
}


def hopping(window: int, updates: int, hop: Hop) -> Scenario:
    """The mean of a window that grows and then loses about a third at once."""
    sizes = _hop_sizes(window, updates, hop.spread)
    begins = _hop_begins(window, updates, sizes)
    steps = np.flatnonzero(np.diff(begins, prepend=0))
    settled = int(steps[29]) + 1 + window if len(steps) >= 30 else updates
    clock = _HopClock(window, sizes, begins)
    policy = Policy(eviction_invariant=clock.own_size if hop.counted else clock.of_the_stream)
    return Scenario(
        monoids.mean,
        policy,
        begins,
        settled,
        lambda values: _means(values, begins),
        _sum,
        clock.tick,
    )


def _hop_sizes(window: int, updates: int, spread: float) -> list[int]:
    random = np.random.default_rng(SEED)
    count = 4 * updates // window + 2
    drawn = random.normal(window / 3, max(spread * window, 1.0) if spread else 0.0, count)
    return [int(size) for size in np.clip(np.rint(drawn), 1, window)]


def _hop_begins(window: int, updates: int, sizes: list[int]) -> Begins:
    begins = np.zeros(updates, dtype=np.int64)
    begin = 0
    for size in sizes:
        # The update that makes the window exceed its size makes the oldest leave.
        at = begin + window
        if at >= updates:
            return begins
        begin += size
        begins[at:] = begin
    raise AssertionError("too few sizes were drawn")


class _HopClock:
    """What is due now. A policy sees only the window, so this counts for it."""

    def __init__(self, window: int, sizes: list[int], begins: Begins) -> None:
        self._window = window
        self._sizes = sizes
        self._begins = begins
        self._kept = 0
        self._hops = 0
        self._was_full = False

    def tick(self, updates: int) -> None:
        """Called when so many updates have come, before the window slides."""
        self._kept = updates - int(self._begins[updates - 1])
        self._hops += self._was_full
        self._was_full = False

    def own_size(self, candidate: Any, _after: Any, before: Any) -> bool:
        if before.size <= self._window:
            return False
        self._was_full = True
        return bool(candidate.size <= self._sizes[self._hops])

    def of_the_stream(self, candidate: Any, _after: Any, before: Any) -> bool:
        return bool(candidate.size <= before.size - self._kept)


def _means(values: np.ndarray[Any, Any], begins: Begins) -> np.ndarray[Any, Any]:
    wide: Any = np.int64 if values.dtype.kind == "i" else np.longdouble
    sums: Any = np.concatenate([[0], np.cumsum(values, dtype=wide)]).astype(wide)
    ends = np.arange(1, len(values) + 1)
    means: np.ndarray[Any, Any] = ((sums[ends] - sums[begins]) / (ends - begins)).astype(float)
    return means


def rolling_max(values: np.ndarray[Any, Any], window: int) -> np.ndarray[Any, Any]:
    """The maximum of the newest `window` values: from the maxima of blocks, forward and back."""
    length = len(values)
    blocks = -(-length // window) + 1
    padded = np.full(blocks * window, -np.inf)
    padded[window - 1 : window - 1 + length] = values
    by_block = padded.reshape(blocks, window)
    forward = np.maximum.accumulate(by_block, axis=1).ravel()
    backward = np.maximum.accumulate(by_block[:, ::-1], axis=1)[:, ::-1].ravel()
    newest = np.arange(window - 1, window - 1 + length)
    return np.maximum(forward[newest], backward[newest - window + 1])


def _sum(state: Any) -> float:
    return float(state[0] + state[1])
