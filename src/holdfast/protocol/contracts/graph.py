"""How far load may have to travel: the contract graph, and the range of prices that it asks for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.contracts.contract import Contract
from holdfast.protocol.contracts.costs import Cost, marginal
from holdfast.protocol.contracts.loads import Load

__all__ = ["delta", "diameter", "lowest_price"]


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
