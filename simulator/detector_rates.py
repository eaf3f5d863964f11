"""How often a mesh suspects a living peer at each threshold, and how soon it finds a dead one.

Measured on arrivals of heartbeats that are drawn from a generator given by the caller; the
benchmark of the edge tier prints the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from holdfast.groups.detectors.phi import PhiMesh

THRESHOLDS: Final = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0)


@dataclass(frozen=True)
class Link:
    """How heartbeats travel, in parts of the period at which they are sent.

    `delay`: the mean of an exponential delay. `loss`: the share of beats that are lost. `stalls`:
    the share of beats at which the sender stops for `stall` periods. Beats keep their order.
    """

    delay: float = 0.0
    loss: float = 0.0
    stalls: float = 0.0
    stall: float = 0.0


LINKS: Final = {
    "calm": Link(delay=0.02),
    "jittery": Link(delay=0.3),
    "lossy": Link(delay=0.1, loss=0.01),
    "stalling": Link(delay=0.1, stalls=0.002, stall=4.0),
}


@dataclass(frozen=True)
class Rate:
    """What one threshold came to."""

    threshold: float
    beats: int
    false_suspicions: int
    detection: float
    """From a death to its suspicion, the mean in microseconds; deaths fall anywhere in a period."""
    longest_detection: int

    @property
    def share(self) -> float:
        """False suspicions per beat."""
        return self.false_suspicions / self.beats


def draw_arrivals(
    rng: np.random.Generator, link: Link, beats: int, period: int
) -> NDArray[np.int64]:
    """When the beats of a living peer arrive, the lost ones left out."""
    stalled = rng.random(beats) < link.stalls
    sent = np.cumsum(period + np.where(stalled, link.stall * period, 0.0))
    arrived = sent + rng.exponential(link.delay * period, beats)
    kept = rng.random(beats) >= link.loss
    times: NDArray[np.int64] = np.maximum.accumulate(arrived[kept]).astype(np.int64)
    return times


def measure_rates(
    rng: np.random.Generator,
    link: Link,
    *,
    beats: int = 10_000,
    period: int = 100_000,
    thresholds: Sequence[float] = THRESHOLDS,
    window: int = 200,
    min_deviation: int | None = None,
    pause: int | None = None,
    curve: str = "logistic",
) -> list[Rate]:
    """One peer over one link, for each threshold the same arrivals."""
    arrivals = draw_arrivals(rng, link, beats, period).tolist()
    deaths = (rng.random(len(arrivals)) * period).astype(np.int64).tolist()
    rates = []
    for threshold in thresholds:
        mesh = PhiMesh(
            ["peer"],
            period,
            threshold,
            window=window,
            min_deviation=min_deviation,
            pause=pause,
            curve=curve,
        )
        wrong = 0
        found = []
        for arrival, life in zip(arrivals, deaths, strict=True):
            wrong += bool(mesh.suspects(arrival))
            mesh.beat("peer", arrival)
            found.append(max(0, mesh.next_check(arrival) - (arrival + life)))
        rates.append(Rate(threshold, len(arrivals), wrong, sum(found) / len(found), max(found)))
    return rates
