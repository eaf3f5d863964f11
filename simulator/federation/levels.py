"""The mechanism for very many participants with equal tasks: a vectorised twin of the managers.

Loads and prices are numbers of tasks, as in the document's simulator: with cost n²/2 for n tasks,
the price of level P is P itself; a buyer offers above it, a seller takes below it. Time goes in
slots. In each, whoever is due asks its next partner, then all who were asked decide, best paid
first. `lockstep` runs the real managers in the same slots, and a test sees that they move the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.federation.graphs import Graph, Ints

SLOTS = 40
"""In the time between two rounds: the document waits 0.025 of it after each counter-offer."""
QUIET = 10 * SLOTS
"""Slots without a move after which nothing moves any more."""

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Counts:
    """What it took."""

    contacts: int = 0
    deals: int = 0
    tasks: int = 0
    releases: int = 0

    @property
    def messages(self) -> int:
        """An offer and an answer each, what is moved, and words to those who asked in vain."""
        return 2 * self.contacts + self.deals + self.releases


@dataclass(frozen=True, slots=True)
class Moved:
    """So many tasks from one to the other, at this price each."""

    slot: int
    buyer: int
    seller: int
    tasks: int
    price: float


class Levels:
    def __init__(
        self, graph: Graph, loads: Ints, phases: Ints, *, trace: bool = False, above: int = 0
    ) -> None:
        """`phases`: the slot of each node's first round. `above`: counter-offers are so many tasks
        above the valuation, until one was in vain (7.1.4)."""
        self.graph = graph
        self.loads = loads.copy()
        self.slot = 0
        self.last_move = 0
        self.counts = Counts()
        self.moves: list[Moved] | None = [] if trace else None
        size = graph.size
        self._reserved = np.zeros(size, dtype=np.int64)
        self._due = phases.copy()
        self._at = np.zeros(size, dtype=np.int64)
        """Which of its contracts a node looks at next."""
        self._bid: Floats = np.full(size, np.inf)
        self._bidder = np.full(size, -1, dtype=np.int64)
        """The contract of the lowest bid of this round."""
        self._held = np.zeros(len(graph.seller), dtype=bool)
        """Contracts by which a place is kept for a bid."""
        self._above = above
        self._concedes = np.zeros(len(graph.seller), dtype=bool)
        """Contracts by which the last bid was in vain."""

    def run(self, slots: int | None = None) -> None:
        """So many slots; or until nothing has moved for long."""
        end = None if slots is None else self.slot + slots
        while self.slot < end if end is not None else self.slot - self.last_move < QUIET:
            self.step()

    def step(self) -> None:
        active = np.flatnonzero(self._due <= self.slot)
        if len(active):
            contract = self.graph.start[active] + self._at[active]
            has_more = contract < self.graph.start[active + 1]
            contract = np.where(has_more, contract, 0)
            wanted = np.where(has_more, self.loads[active] - self.graph.low[contract], 0)
            asks = wanted > 0
            self._settle(active[~asks])
            if asks.any():
                self._ask(active[asks], contract[asks], wanted[asks])
        self.slot += 1

    # Rounds that are over.

    def _settle(self, nodes: Ints) -> None:
        """All have been asked: the lowest bid wins, if it pays."""
        pays = self.loads[nodes] - 0.5 > self._bid[nodes]
        winners = nodes[pays]
        if len(winners):
            contract = self._bidder[winners]
            seller = self.graph.seller[contract]
            self._held[contract] = False
            self._concedes[contract] = False
            np.subtract.at(self._reserved, seller, 1)
            np.add.at(self.loads, seller, 1)
            self.loads[winners] -= 1
            self._note(winners, seller, np.ones(len(winners), dtype=np.int64), self._bid[winners])
        self._end(nodes)

    def _end(self, nodes: Ints) -> None:
        """Places kept in vain are free again."""
        bidding = nodes[np.isfinite(self._bid[nodes])]
        if len(bidding):
            start, stop = self.graph.start[bidding], self.graph.start[bidding + 1]
            every = np.repeat(stop - np.cumsum(stop - start), stop - start)
            every += np.arange(len(every))
            held = every[self._held[every]]
            np.subtract.at(self._reserved, self.graph.seller[held], 1)
            self._held[held] = False
            self._concedes[held] = True
            self.counts.releases += len(held)
            self._bid[bidding] = np.inf
        self._at[nodes] = 0
        self._due[nodes] = self.slot + SLOTS

    # Offers and answers.

    def _ask(self, buyer: Ints, contract: Ints, wanted: Ints) -> None:
        seller, low, high = (
            each[contract] for each in (self.graph.seller, self.graph.low, self.graph.high)
        )
        self.counts.contacts += len(buyer)
        taken = np.zeros(len(buyer), dtype=np.int64)
        order = np.lexsort((buyer, -low, seller))
        rank = _rank(seller[order])
        for turn in range(int(rank.max()) + 1):
            now = order[rank == turn]
            filled = self.loads[seller[now]] + self._reserved[seller[now]]
            taken[now] = np.minimum(wanted[now], np.maximum(0, low[now] - filled))
            self.loads[seller[now]] += taken[now]
            asked = now[(taken[now] == 0) & (low[now] < high[now]) & (filled + 0.5 <= high[now])]
            self._take_bids(buyer[asked], contract[asked], seller[asked])
        self.loads[buyer] -= taken
        dealt = taken > 0
        self._note(buyer[dealt], seller[dealt], taken[dealt], low[dealt])
        self._end(buyer[dealt])
        self._at[buyer[~dealt]] += 1
        self._due[buyer[~dealt]] = self.slot + 1

    def _take_bids(self, buyer: Ints, contract: Ints, seller: Ints) -> None:
        """Each seller asks for what one more task costs it, or for more, and keeps a place."""
        bids = self.loads[seller] + self._reserved[seller] + 0.5
        if self._above:
            most = np.maximum(bids, self.graph.high[contract])
            bids += np.where(self._concedes[contract], 0, self._above)
            bids = np.minimum(bids, most)
        self._reserved[seller] += 1
        self._held[contract] = True
        is_lower = bids < self._bid[buyer]
        self._bid[buyer[is_lower]] = bids[is_lower]
        self._bidder[buyer[is_lower]] = contract[is_lower]

    def _note(self, buyer: Ints, seller: Ints, tasks: Ints, price: Ints | Floats) -> None:
        if not len(buyer):
            return
        self.last_move = self.slot
        self.counts.deals += len(buyer)
        self.counts.tasks += int(tasks.sum())
        if self.moves is not None:
            columns = (buyer.tolist(), seller.tolist(), tasks.tolist(), price.tolist())
            self.moves += [Moved(self.slot, *each) for each in zip(*columns, strict=True)]


def _rank(seller: Ints) -> Ints:
    """Of sorted sellers: the first of each, the second of each ..."""
    first = np.concatenate([[True], seller[1:] != seller[:-1]])
    starts = np.flatnonzero(first)
    return np.arange(len(seller)) - np.repeat(starts, np.diff([*starts, len(seller)]))
