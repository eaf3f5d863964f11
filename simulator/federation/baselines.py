"""What contracts are compared with: nothing at all, a global auction, and one who sees everything.

Loads are numbers of equal tasks, as in `levels`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.federation.graphs import Ints


@dataclass(frozen=True, slots=True)
class Outcome:
    loads: Ints
    tasks: int
    """Moved, counted once for each time."""
    deals: int
    messages: int


def overload(loads: Ints, limits: Ints) -> float:
    """The share of all tasks that is above somebody's capacity."""
    return float(np.maximum(0, loads - limits).sum() / loads.sum())


def unused(loads: Ints, limits: Ints) -> float:
    """The share of all capacity that nobody uses."""
    return float(np.maximum(0, limits - loads).sum() / limits.sum())


def optimum(loads: Ints, limits: Ints) -> Outcome:
    """One who knows all loads and is obeyed: each task above capacity moves once, while there is
    room. It takes a report of everybody, an order for each pair, and the move."""
    over, room = np.maximum(0, loads - limits), np.maximum(0, limits - loads)
    tasks = int(min(over.sum(), room.sum()))
    left = loads - _first(over, tasks) + _first(room, tasks)
    deals = _pairs(_first(over, tasks), _first(room, tasks))
    return Outcome(left, tasks, deals, len(loads) + 2 * deals)


def auction(loads: Ints, random: np.random.Generator, rounds: int = 1000) -> Outcome:
    """Whoever can have a task run for less than it costs to keep asks everybody for sealed bids.

    The lowest win, one after the other while that pays, until nobody can save anything more: the
    computational economies of 2.8. Each auction takes a word to and from all others.
    """
    loads = loads.copy()
    tasks = deals = messages = 0
    for _ in range(rounds):
        before = tasks
        for node in random.permutation(len(loads)):
            sold = _sell(loads, int(node))
            if sold:
                messages += 2 * (len(loads) - 1) + 2 * len(sold)
                deals += len(sold)
                tasks += sum(sold)
        if tasks == before:
            break
    return Outcome(loads, tasks, deals, messages)


def _sell(loads: Ints, node: int) -> list[int]:
    """How many tasks each winner gets of this node."""
    won: dict[int, int] = {}
    while True:
        # A task is worth moving to who has at least two fewer.
        lowest = int(loads.min())
        if loads[node] - lowest < 2:
            return list(won.values())
        bidders = np.flatnonzero(loads == lowest)
        count = min(len(bidders), int(loads[node]) - lowest - 1)
        for bidder in bidders[:count].tolist():
            won[bidder] = won.get(bidder, 0) + 1
        loads[bidders[:count]] += 1
        loads[node] -= count


def _first(amounts: Ints, tasks: int) -> Ints:
    """The first so many of all."""
    ends = np.minimum(np.cumsum(amounts), tasks)
    return np.diff(ends, prepend=0)


def _pairs(giving: Ints, taking: Ints) -> int:
    """Of those who give and those who take, when they are matched in order."""
    ends = np.union1d(np.cumsum(giving), np.cumsum(taking))
    return len(ends[ends > 0])
