"""The document's experiments: the four variants of contracts, and loads that come and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from holdfast.sim.federation.baselines import overload, unused
from holdfast.sim.federation.graphs import (
    Ints,
    capacities,
    draw_graph,
    draw_loads,
    priced,
)
from holdfast.sim.federation.levels import SLOTS, Counts, Levels

__all__ = ["VARIANTS", "Convergence", "Phase", "Variant", "converge", "make_levels", "vary"]


@dataclass(frozen=True, slots=True)
class Variant:
    """One of table 7.2."""

    name: str
    width: int
    is_heterogeneous: bool


VARIANTS: Final = (
    Variant("uniform fixed", 0, False),
    Variant("uniform range", 5, False),
    Variant("heterogeneous fixed", 0, True),
    Variant("heterogeneous range", 5, True),
)


@dataclass(frozen=True, slots=True)
class Convergence:
    """What is left when nothing moves any more. `seconds`: of simulated time, rounds apart."""

    start_overload: float
    start_unused: float
    overload: float
    unused: float
    seconds: float
    counts: Counts
    least: int
    """The most tasks that anybody has fewer than its capacity."""
    loads: Ints


@dataclass(frozen=True, slots=True)
class Phase:
    """Load that comes and goes for a while: so many tasks were added or removed, and moved."""

    mean: float
    varied: int
    moved: int

    @property
    def share(self) -> float:
        return self.moved / self.varied


def make_levels(
    size: int, contracts: int, percent: int, variant: Variant, seed: int
) -> tuple[Levels, Ints]:
    """Everything follows from the seed. Also answers the capacities."""
    random = np.random.default_rng([seed, size, contracts])
    pairs = draw_graph(size, contracts, random)
    limits = capacities(size, random if variant.is_heterogeneous else None)
    graph = priced(pairs, limits, variant.width, random)
    loads = draw_loads(size, percent, random)
    return Levels(graph, loads, random.integers(0, SLOTS, size)), limits


def converge(size: int, contracts: int, percent: int, variant: Variant, seed: int) -> Convergence:
    levels, limits = make_levels(size, contracts, percent, variant, seed)
    before = levels.loads.copy()
    levels.run()
    return Convergence(
        overload(before, limits),
        unused(before, limits),
        overload(levels.loads, limits),
        unused(levels.loads, limits),
        levels.last_move / SLOTS,
        levels.counts,
        int(np.maximum(0, limits - levels.loads).max()),
        levels.loads,
    )


def vary(
    percent: int,
    variant: Variant,
    seed: int,
    *,
    size: int = 330,
    contracts: int = 10,
    phases: tuple[tuple[float, float], ...] = ((250, 50), (300, 10), (200, 1)),
) -> list[Phase]:
    """E5: after 50 s to converge, everybody gets a task and loses one every so often, for so many
    seconds each (length and mean of each phase)."""
    levels, _ = make_levels(size, contracts, percent, variant, seed)
    random = np.random.default_rng([seed, size, percent, 5])
    levels.run(50 * SLOTS)
    found = []
    for seconds, mean in phases:
        varied, moved = 0, levels.counts.tasks
        for _ in range(int(seconds * SLOTS)):
            added = random.poisson(1 / (mean * SLOTS), size)
            removed = np.minimum(random.poisson(1 / (mean * SLOTS), size), levels.loads)
            levels.loads += added - removed
            varied += int(added.sum() + removed.sum())
            levels.step()
        found.append(Phase(mean, varied, levels.counts.tasks - moved))
    return found
