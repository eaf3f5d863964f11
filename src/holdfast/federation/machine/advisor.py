"""Advice on contracts (sections 3.9 and 6.5 of the document), from one's own load history.

Nothing here is known of partners but what one guesses: `sellers`, how loaded they are.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgumentError
from holdfast.federation.machine.contract import Contract
from holdfast.federation.machine.costs import Cost, Load, marginal

Floats = NDArray[np.float64]
Quantile = Callable[[Floats], Floats]
"""Turns evenly spread shares of 1 into loads: a distribution function the other way round."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """(6.9): F(x) = (1 - (k/x)^a) / (1 - (k/T)^a) on [k, T]; a = -1 is uniform, lower heavier."""

    least: float
    most: float
    alpha: float

    def __post_init__(self) -> None:
        if not 0 < self.least < self.most < math.inf:
            raise InvalidArgumentError(
                f"[{self.least}, {self.most}]: no range of loads; give two above 0, ascending"
            )
        if not math.isfinite(self.alpha) or self.alpha == 0:
            raise InvalidArgumentError(f"alpha: {self.alpha} has no distribution; give another")

    def below(self, load: float) -> float:
        """The probability of a load of at most so much."""
        inside = min(max(load, self.least), self.most)
        ratio: float = (self.least / self.most) ** self.alpha
        return float((1 - (self.least / inside) ** self.alpha) / (1 - ratio))

    @property
    def mean(self) -> float:
        """(6.10), which has another form for alpha 1."""
        k, t, a = self.least, self.most, self.alpha
        scale = k**a / (1 - (k / t) ** a)
        if a == 1:
            return float(scale * math.log(t / k))
        return float(scale * a / (a - 1) * (k ** (1 - a) - t ** (1 - a)))

    def __call__(self, shares: Floats) -> Floats:
        ratio = (self.least / self.most) ** self.alpha
        drawn: Floats = self.least * (1 - shares * (1 - ratio)) ** (-1 / self.alpha)
        return drawn


def diameter(contracts: Iterable[Contract]) -> int:
    """The most contracts between any two, going from buyers to sellers."""
    sellers: dict[str, set[str]] = {}
    for contract in contracts:
        sellers.setdefault(contract.buyer, set()).add(contract.seller)
        sellers.setdefault(contract.seller, set())
    return max((_farthest(start, sellers) for start in sellers), default=0)


def _farthest(start: str, sellers: dict[str, set[str]]) -> int:
    steps = {start: 0}
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        for seller in sellers[here]:
            if seller not in steps:
                steps[seller] = steps[here] + 1
                waiting.append(seller)
    if len(steps) < len(sellers):
        away = ", ".join(sorted(set(sellers) - set(steps)))
        raise InvalidArgumentError(
            f"contracts: no chain of them leads from {start} to {away}; load cannot get there"
        )
    return max(steps.values())


def delta(cost: Cost, task: Load, count: int, removed: int, units: float) -> float:
    """(6.15): how much cheaper a unit gets when of `count` equal tasks so many are removed."""
    if not 0 <= removed < count:
        raise InvalidArgumentError(f"removed: {removed} of {count} tasks cannot be; give fewer")
    full = marginal(cost, task, task * (count - 1))
    less = marginal(cost, task, task * (count - 1 - removed))
    return (full - less) / units


def lowest_price(cost: Cost, task: Load, high: float, hops: int, units: float) -> float:
    """Lemma 1: with prices from here to `high`, equal tasks get as far as `hops` contracts.

    `high - δ` of one task less than there are hops, counted from as many tasks as `high` pays for.
    """
    if hops < 1:
        raise InvalidArgumentError(f"hops: {hops} is too few; give 1 or more")
    count = 0
    while marginal(cost, task, task * count) <= units * high * (1 + ROUNDING):
        count += 1
        if count > MAX_TASKS:
            raise InvalidArgumentError(f"price {high:g}: pays for any load; give a lower one")
    if count < hops:
        raise InvalidArgumentError(
            f"price {high:g}: pays for {count} tasks, too few to pass on over {hops} contracts"
        )
    return high - delta(cost, task, count, hops - 1, units)


MAX_TASKS = 100_000
ROUNDING = 1e-9


UNIFORM = Bounded(0.01, 1.0, -1.0)
STEP = 0.01
"""The load by which a price is measured: the slope of the cost there."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What so many contracts leave of a spike: how often it is overload still, and how much."""

    contracts: int
    overloaded: float
    overload: float
    """The mean over all spikes."""


@dataclass(frozen=True, slots=True)
class Advice:
    """`outlooks` begin with no contract at all."""

    spikes: float
    """The share of the history above capacity."""
    outlooks: tuple[Outlook, ...]
    contracts: int
    """As many as pay for themselves."""
    high: float
    """The most to pay for a unit: what one costs at full capacity."""
    low: float
    """The least to agree upon, so that load passes through the whole graph of contracts."""
    cheap: float
    """A price at the median load, for contracts that only save money."""

    def benefit(self, contracts: int) -> float:
        """(6.14) with savings in units of load: how much overload so many take away."""
        return self.spikes * (self.outlooks[0].overload - self.outlooks[contracts].overload)


def outlook(
    spikes: Quantile,
    sellers: Quantile,
    contracts: int,
    shares: Floats,
    *,
    capacity: float = 1.0,
) -> Outlook:
    """(6.13) by Monte Carlo: a spike, and sellers who each take what they have free.

    `shares` are random numbers in [0, 1), a column for the spike and one for each seller. A spike
    is load above capacity; tasks are fine enough to fill every seller up.
    """
    if shares.ndim != 2 or shares.shape[1] < contracts + 1:
        raise InvalidArgumentError(f"shares: give a column for the spike and {contracts} sellers")
    over = spikes(shares[:, 0])
    if contracts:
        free = np.maximum(0.0, capacity - sellers(shares[:, 1 : contracts + 1]))
        over = np.maximum(0.0, over - free.sum(axis=1))
    return Outlook(contracts, float((over > 0).mean()), float(over.mean()))


def empirical(history: Sequence[float]) -> Quantile:
    """A distribution that is what has been seen."""
    seen = np.sort(np.asarray(history, dtype=np.float64))
    if not len(seen) or not np.isfinite(seen).all() or (seen < 0).any():
        raise InvalidArgumentError("history: give the loads that were measured, 0 or more each")
    return lambda shares: seen[np.minimum((shares * len(seen)).astype(int), len(seen) - 1)]


def advise(
    cost: Cost,
    history: Sequence[float],
    shares: Floats,
    *,
    capacity: float = 1.0,
    sellers: Quantile = UNIFORM,
    upkeep: float = 0.0,
    hops: int = 1,
    task: float = 0.01,
) -> Advice:
    """From loads that were measured, as shares of what one has. `upkeep`: what a contract costs to
    maintain, in units of overload avoided. `hops`: the diameter of the contract graph."""
    loads = empirical(history)(np.linspace(0, 1, len(history), endpoint=False))
    if capacity <= 0:
        raise InvalidArgumentError(f"capacity: {capacity} is none; give more than 0")
    above = loads[loads > capacity] - capacity
    most = shares.shape[1] - 1
    if len(above):
        spikes = empirical(above.tolist())
        outlooks = [
            outlook(spikes, sellers, count, shares, capacity=capacity) for count in range(most + 1)
        ]
    else:
        outlooks = [Outlook(count, 0.0, 0.0) for count in range(most + 1)]
    share = len(above) / len(loads)
    high = _price(cost, capacity)
    return Advice(
        share,
        tuple(outlooks),
        _worth_it([share * (outlooks[0].overload - each.overload) for each in outlooks], upkeep),
        high,
        lowest_price(cost, Load(task), high, hops, task),
        _price(cost, float(np.median(loads))),
    )


def _worth_it(benefits: list[float], upkeep: float) -> int:
    """Contracts while each brings more than it costs; they bring less and less."""
    found = 0
    for count in range(1, len(benefits)):
        if benefits[count] - benefits[count - 1] <= upkeep:
            break
        found = count
    return found


def _price(cost: Cost, level: float) -> float:
    return marginal(cost, Load(STEP), Load(max(0.0, level - STEP))) / STEP


def counter_offer(value: float, competitors: int) -> float:
    """(6.17) maximised: what to ask for in [0, 1] when others ask evenly, and the buyer may not be
    able to pay. Table 6.2."""
    if not 0 <= value <= 1:
        raise InvalidArgumentError(f"value: {value} is not within 0 and 1")
    rivals = competitors + 1
    return (1 + rivals * value) / (rivals + 1)


def acceptance(low: float, high: float, contracts: int) -> float:
    """(6.20): a seller does best to accept the lowest price if a unit costs it less than this.

    Costs of sellers are spread evenly over [0, 1], and each buyer has so many contracts.
    """
    if not 0 < low <= high <= 1 or contracts < 2:
        raise InvalidArgumentError(
            f"[{low}, {high}], {contracts} contracts: give prices within 0 and 1, and 2 or more"
        )
    alone = (1 - low) ** (contracts - 1)
    return low * (1 - high / low * alone) / (1 - alone)
