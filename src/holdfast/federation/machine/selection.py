"""Selection of tasks to offer and to take, and their prices (3.3, 3.4 and 3.6).

All inequalities are strict, so that at equality nothing moves: that is what keeps identical
contracts from passing load around. `margin` widens them by a share of the price, for loads that
are measured and not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from holdfast.federation.machine.contract import Contract
from holdfast.federation.machine.costs import Cost, Load, Units, marginal
from holdfast.federation.machine.messages import Task

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Bid(Generic[K]):
    """What a seller asks for, above the lowest price: binding."""

    price: float
    tasks: tuple[K, ...]


def choose_offer(
    cost: Cost,
    everything: Load,
    tasks: Iterable[tuple[K, Load]],
    price: float,
    units: Units,
    *,
    margin: float = 0.0,
    migration: float = 0.0,
) -> list[K]:
    """Figure 6-4: those that cost more here than there, each with those before it already gone.

    `everything` is all the load here. A move costs its `migration` twice, there and back.
    """
    offer = []
    left = everything
    for key, load in tasks:
        rest = left - load
        amount = units.of(load)
        if amount <= 0:
            continue
        if marginal(cost, load, rest) > amount * price * (1 + margin) + 2 * migration:
            offer.append(key)
            left = rest
    return offer


def choose_taken(
    cost: Cost,
    everything: Load,
    tasks: Iterable[tuple[K, Load]],
    price: float,
    units: Units,
    *,
    margin: float = 0.0,
) -> list[K]:
    """Figure 6-5: those that cost less here than is paid, each with those before it added.

    `everything` is all that runs here or has been promised a place.
    """
    taken = []
    with_them = everything
    for key, load in tasks:
        if marginal(cost, load, with_them) < units.of(load) * price * (1 - margin):
            taken.append(key)
            with_them = with_them + load
    return taken


def bid(
    cost: Cost,
    everything: Load,
    tasks: Sequence[tuple[K, Load]],
    contract: Contract,
    competitors: int,
    *,
    margin: float = 0.0,
) -> Bid[K] | None:
    """What to ask for tasks that are not worth the lowest price; None if nothing in the range is.

    For one task only, that which is the cheapest to take; for all that are worth it at the highest
    price. `competitors` 0 asks for the valuation itself.
    """
    if contract.is_fixed:
        return None
    valued = [
        (marginal(cost, load, everything) / amount, key)
        for key, load in tasks
        if (amount := contract.units.of(load)) > 0
    ]
    if not valued:
        return None
    value, key = min(valued, key=lambda each: each[0])
    if value * (1 + margin) > contract.high:
        return None
    price = counter_price(max(value * (1 + margin), contract.low), contract.high, competitors)
    if price < contract.high:
        return Bid(price, (key,))
    taken = choose_taken(cost, everything, tasks, contract.high, contract.units, margin=margin)
    return Bid(contract.high, tuple(taken)) if taken else None


def counter_price(value: float, high: float, competitors: int) -> float:
    """(6.18) with β = 1: the equilibrium of a sealed reverse auction, within value and high.

    Nobody to compete with makes the highest price; 0 means that one's valuation is asked for.
    """
    if competitors <= 0:
        return value
    price = high - (competitors - 1) / competitors * (high - value)
    return min(max(price, value), high)


def keep_apart(held: Iterable[Task], offered: Iterable[Task]) -> list[Task]:
    """Those offered that may run beside what is held: one replica of each stage at most.

    What is lent counts as held, for it may come home at any time.
    """
    places = {task.stage: task.id for task in held if task.stage}
    return [
        task
        for task in offered
        if not task.stage or places.setdefault(task.stage, task.id) == task.id
    ]


def is_worth_keeping_out(
    cost: Cost, everything: Load, task: Load, price: float, units: Units
) -> bool:
    """For whoever pays, when a move is due: it would cost as much or more at home."""
    return marginal(cost, task, everything) >= units.of(task) * price
