"""Contract graphs as the document draws them, with loads and prices counted in tasks (7.1).

Each node joins with a contract to a random one that is there already; then those who have too few
pick random partners. Contracts go both ways at the same price.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from holdfast.federation.machine.advisor import Bounded

Ints = NDArray[np.int64]

LOADS: Final = {50: 0.01, 75: -0.22, 125: -0.70, 150: -1.00}
"""Table 7.3: the shape of the distribution of loads, by load in per cent of capacity."""
LEAST, MOST = 1, 300
ACCEPTABLE: Final = {50: -1.0, 75: -3.0}
"""The same on [1, 100], where nobody has too much (7.1.5): the document gives no shape."""
CAPACITY: Final = 100


@dataclass(frozen=True, slots=True)
class Graph:
    """Directed contracts, those of one buyer together and cheapest first.

    Those of node i are `start[i]` to `start[i + 1]` of `seller`, `low` and `high`.
    """

    start: Ints
    buyer: Ints
    seller: Ints
    low: Ints
    high: Ints

    @property
    def size(self) -> int:
        return len(self.start) - 1

    @property
    def degrees(self) -> Ints:
        return np.diff(self.start)


def draw_graph(size: int, contracts: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """Pairs of partners, so that everybody has at least so many."""
    partners: list[set[int]] = [set() for _ in range(size)]
    joined = (random.random(size) * np.arange(size)).astype(int)
    for node in range(1, size):
        partners[node].add(int(joined[node]))
        partners[joined[node]].add(node)
    for node in range(size):
        wanted = min(contracts, size - 1)
        while len(partners[node]) < wanted:
            other = int(random.integers(size))
            if other != node:
                partners[node].add(other)
                partners[other].add(node)
    return [(node, other) for node in range(size) for other in partners[node] if node < other]


def priced(
    pairs: list[tuple[int, int]],
    limits: Ints,
    width: int,
    random: np.random.Generator,
) -> Graph:
    """Table 7.2: a contract's price is the lower of two capacities, its range `width` tasks."""
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    buyer = np.concatenate([array[:, 0], array[:, 1]])
    seller = np.concatenate([array[:, 1], array[:, 0]])
    high = np.minimum(limits[buyer], limits[seller])
    order = np.lexsort((random.random(len(buyer)), high, buyer))
    buyer, seller, high = buyer[order], seller[order], high[order]
    start = np.searchsorted(buyer, np.arange(len(limits) + 1))
    return Graph(start, buyer, seller, high - width, high)


def capacities(size: int, random: np.random.Generator | None = None) -> Ints:
    """100 tasks each; or, drawn, 80 to 120."""
    if random is None:
        return np.full(size, CAPACITY, dtype=np.int64)
    return random.integers(80, 121, size)


def draw_loads(size: int, percent: int, random: np.random.Generator) -> Ints:
    """Whole tasks, drawn from (6.9)."""
    drawn = Bounded(LEAST, MOST, LOADS[percent])(random.random(size))
    return np.rint(drawn).astype(np.int64)


def draw_acceptable(size: int, percent: int, random: np.random.Generator) -> Ints:
    """Whole tasks, and nobody has more than its capacity."""
    drawn = Bounded(LEAST, CAPACITY, ACCEPTABLE[percent])(random.random(size))
    return np.rint(drawn).astype(np.int64)


def diameter(size: int, pairs: list[tuple[int, int]]) -> int:
    """The longest of all shortest ways, in contracts."""
    near = np.eye(size, dtype=np.float32)
    for one, other in pairs:
        near[one, other] = near[other, one] = 1
    reached, steps = np.eye(size, dtype=np.float32), 0
    while not reached.all():
        further = (reached @ near > 0).astype(np.float32)
        if (further == reached).all():
            raise ValueError("the contracts do not connect everybody")
        reached, steps = further, steps + 1
    return steps
