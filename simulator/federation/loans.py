"""Moves for a limited time (7.1.5): when it is over, either side may cancel.

Tasks are alike, so a loan is a number of them: whoever has passed some on gives back others.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from simulator.federation.graphs import Ints
from simulator.federation.levels import Levels, Moved


@dataclass(slots=True)
class _Loan:
    buyer: int
    seller: int
    price: float
    tasks: int


class Loans:
    """What was moved in `levels`, which keeps a trace, and has not come back."""

    def __init__(self, levels: Levels, duration: int, random: np.random.Generator) -> None:
        """`duration`: slots."""
        if levels.moves is None:
            raise ValueError("levels: no trace is kept; make them with trace=True")
        self.returned = 0
        """Tasks that went back."""
        self._levels = levels
        self._moves: list[Moved] = levels.moves
        self._duration = duration
        self._random = random
        self._loans: dict[int, _Loan] = {}
        self._due: list[tuple[int, int]] = []
        """When the time of which loan is over."""
        self._guests: defaultdict[int, dict[int, _Loan]] = defaultdict(dict)
        """The loans that each node runs, by number."""
        self._number = 0

    def step(self) -> None:
        """Note what was moved in the last slot, and look at loans whose time is over."""
        for move in self._moves:
            loan = _Loan(move.buyer, move.seller, move.price, move.tasks)
            self._loans[self._number] = self._guests[move.seller][self._number] = loan
            heapq.heappush(self._due, (move.slot + self._duration, self._number))
            self._number += 1
        self._moves.clear()
        while self._due and self._due[0][0] < self._levels.slot:
            due, number = heapq.heappop(self._due)
            if number in self._loans:
                self._look_at(number)
            if number in self._loans:
                heapq.heappush(self._due, (due + self._duration, number))

    def remove(self, removed: Ints) -> None:
        """So many tasks end at each node: its own and those of others alike."""
        for seller in np.flatnonzero(removed).tolist():
            running = int(self._levels.loads[seller])
            for ended in range(int(removed[seller])):
                chosen = int(self._random.integers(running - ended))
                for number, loan in self._guests[seller].items():
                    chosen -= loan.tasks
                    if chosen < 0:
                        self._end(number, loan, 1)
                        break

    def _look_at(self, number: int) -> None:
        """Send back what either side would rather not have there."""
        loan = self._loans[number]
        tasks = _unprofitable(self._levels.loads, loan)
        self._levels.loads[loan.seller] -= tasks
        self._levels.loads[loan.buyer] += tasks
        self.returned += tasks
        self._end(number, loan, tasks)

    def _end(self, number: int, loan: _Loan, tasks: int) -> None:
        loan.tasks -= tasks
        if not loan.tasks:
            del self._loans[number], self._guests[loan.seller][number]


def _unprofitable(loads: Ints, loan: _Loan) -> int:
    """Tasks that cost the seller more than it gets, or would cost the buyer less than it pays."""
    seller, buyer = int(loads[loan.seller]), int(loads[loan.buyer])
    too_dear = math.ceil(seller - 0.5 - loan.price)
    better_at_home = math.ceil(loan.price - buyer + 0.5) - 1
    return min(loan.tasks, seller, max(0, too_dear, better_at_home))
