"""The document's experiments: the four variants of contracts, and loads that come and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from simulator.federation.baselines import overload, unused
from simulator.federation.graphs import (
    Ints,
    capacities,
    draw_acceptable,
    draw_graph,
    draw_loads,
    priced,
)
from simulator.federation.levels import SLOTS, Counts, Levels, Moved
from simulator.federation.loans import Loans


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
    soon: float
    """Seconds until 95 % of the tasks that get a place in the end have one; where there is too much
    load, of the capacity that is used in the end."""
    counts: Counts
    least: int
    """The most tasks that anybody has fewer than its capacity."""
    loads: Ints


@dataclass(frozen=True, slots=True)
class Second:
    """What was moved in a second, and how much was left to move at its end."""

    number: int
    tasks: int
    deals: int
    left: int


@dataclass(frozen=True, slots=True)
class Phase:
    """Load that comes and goes for a while: so many tasks were added or removed, and moved."""

    mean: float
    varied: int
    moved: int
    returned: int
    """Of those that were moved: so many went back, when their time was over."""

    @property
    def share(self) -> float:
        return self.moved / self.varied


def make_levels(
    size: int,
    contracts: int,
    percent: int,
    variant: Variant,
    seed: int,
    *,
    above: int = 0,
    trace: bool = False,
    acceptable: bool = False,
) -> tuple[Levels, Ints]:
    """Everything follows from the seed. Also answers the capacities. `acceptable`: from the start
    nobody has too much."""
    random = np.random.default_rng([seed, size, contracts])
    pairs = draw_graph(size, contracts, random)
    limits = capacities(size, random if variant.is_heterogeneous else None)
    graph = priced(pairs, limits, variant.width, random)
    loads = (draw_acceptable if acceptable else draw_loads)(size, percent, random)
    phases = random.integers(0, SLOTS, size)
    return Levels(graph, loads, phases, trace=trace, above=above), limits


def converge(
    size: int, contracts: int, percent: int, variant: Variant, seed: int, *, above: int = 0
) -> Convergence:
    levels, limits = make_levels(size, contracts, percent, variant, seed, above=above, trace=True)
    before = levels.loads.copy()
    levels.run()
    assert levels.moves is not None
    return Convergence(
        overload(before, limits),
        unused(before, limits),
        overload(levels.loads, limits),
        unused(levels.loads, limits),
        levels.last_move / SLOTS,
        _soon(before, limits, levels.moves),
        levels.counts,
        int(np.maximum(0, limits - levels.loads).max()),
        levels.loads,
    )


def progress(size: int, contracts: int, percent: int, variant: Variant, seed: int) -> list[Second]:
    """Figure 7-2: each second until nothing moves any more."""
    levels, limits = make_levels(size, contracts, percent, variant, seed, trace=True)
    found: list[Second] = []
    moves = levels.moves
    assert moves is not None
    while not found or levels.slot - levels.last_move < SLOTS:
        before = len(moves)
        levels.run(SLOTS)
        new = moves[before:]
        left = int(np.maximum(0, levels.loads - limits).sum())
        found.append(Second(len(found) + 1, sum(each.tasks for each in new), len(new), left))
    return found


def _soon(before: Ints, limits: Ints, moves: list[Moved]) -> float:
    loads, sizes = before.tolist(), limits.tolist()
    is_overloaded = sum(loads) > sum(sizes)

    def missing(node: int) -> int:
        free: int = sizes[node] - loads[node]
        return max(0, free if is_overloaded else -free)

    left = sum(map(missing, range(len(loads))))
    course = [(0, left)]
    for move in moves:
        left -= missing(move.buyer) + missing(move.seller)
        loads[move.buyer] -= move.tasks
        loads[move.seller] += move.tasks
        left += missing(move.buyer) + missing(move.seller)
        course.append((move.slot, left))
    enough = course[0][1] - 0.95 * (course[0][1] - left)
    return next(slot for slot, still in course if still <= enough) / SLOTS


def vary(
    percent: int,
    variant: Variant,
    seed: int,
    *,
    size: int = 330,
    contracts: int = 10,
    phases: tuple[tuple[float, float], ...] = ((250, 50), (300, 10), (200, 1)),
    acceptable: bool = False,
    duration: float | None = None,
) -> list[Phase]:
    """E5: after 50 s to converge, everybody gets a task and loses one every so often, for so many
    seconds each (length and mean of each phase). E6: nobody has too much at the start
    (`acceptable`), and a move may be cancelled each time so many seconds are over (`duration`)."""
    levels, _ = make_levels(
        size, contracts, percent, variant, seed, trace=duration is not None, acceptable=acceptable
    )
    random = np.random.default_rng([seed, size, percent, 5])
    loans = None if duration is None else Loans(levels, round(duration * SLOTS), random)
    for _ in range(50 * SLOTS):
        levels.step()
        if loans is not None:
            loans.step()
    found = []
    for seconds, mean in phases:
        varied, moved = 0, levels.counts.tasks
        returned = 0 if loans is None else loans.returned
        for _ in range(int(seconds * SLOTS)):
            added = random.poisson(1 / (mean * SLOTS), size)
            removed = np.minimum(random.poisson(1 / (mean * SLOTS), size), levels.loads)
            if loans is not None:
                loans.remove(removed)
            levels.loads += added - removed
            varied += int(added.sum() + removed.sum())
            levels.step()
            if loans is not None:
                loans.step()
        back = 0 if loans is None else loans.returned - returned
        found.append(Phase(mean, varied, levels.counts.tasks - moved + back, back))
    return found
