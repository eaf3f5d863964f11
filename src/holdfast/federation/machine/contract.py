"""Contracts between two participants: direction, price, limits.

A contract has a direction: the buyer hands tasks to the seller and pays. It is private to the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from holdfast.errors import InvalidArgumentError
from holdfast.federation.machine.costs import Units


@dataclass(frozen=True, slots=True)
class Contract:
    """`low` to `high` is the price of a unit of load for a duration; fixed if they are equal."""

    buyer: str
    seller: str
    high: float
    low: float
    duration: int | None = None
    """Microseconds that a move lasts at least and is paid for; None: it lasts for ever."""
    units: Units = field(default_factory=Units)
    kinds: frozenset[str] | None = None
    """The kinds of tasks that may be handed over; None: all."""
    onward: bool = True
    """Whether the seller may hand them on to its own partners."""
    rank: int = 0
    """Of equal prices, lower ranks are asked first."""

    def __post_init__(self) -> None:
        place = f"contract {self.buyer} → {self.seller}"
        if not self.buyer or not self.seller:
            raise InvalidArgumentError(f"{place}: one side has no name; give it one")
        if self.buyer == self.seller:
            raise InvalidArgumentError(f"{place}: nobody buys of itself; name two participants")
        if not all(math.isfinite(each) and each > 0 for each in (self.low, self.high)):
            raise InvalidArgumentError(
                f"{place}: [{self.low}, {self.high}] are no prices; give amounts above 0"
            )
        if self.low > self.high:
            raise InvalidArgumentError(
                f"{place}: the range [{self.low:g}, {self.high:g}] is upside down; swap its ends"
            )
        if self.duration is not None and self.duration <= 0:
            raise InvalidArgumentError(f"{place}: duration {self.duration} is too short; give more")
        if self.kinds is not None and not self.kinds:
            raise InvalidArgumentError(f"{place}: no kind of task may move; name one, or leave out")

    @property
    def is_fixed(self) -> bool:
        return self.low == self.high

    def allows(self, kind: str) -> bool:
        return self.kinds is None or kind in self.kinds


class Contracts:
    """Those of one participant, as buyer and as seller. At most one for each pair and direction."""

    def __init__(self, me: str, given: Iterable[Contract] = ()) -> None:
        self.me = me
        self._buying: dict[str, Contract] = {}
        self._selling: dict[str, Contract] = {}
        for contract in given:
            self.add(contract)

    def __iter__(self) -> Iterator[Contract]:
        yield from self._buying.values()
        yield from self._selling.values()

    @property
    def buying(self) -> tuple[Contract, ...]:
        """Cheapest first, then as preferred."""
        return tuple(sorted(self._buying.values(), key=lambda each: (each.low, each.rank)))

    def add(self, contract: Contract) -> None:
        side, partner = self._side(contract)
        if partner in side:
            raise InvalidArgumentError(
                f"contract {contract.buyer} → {contract.seller}: there is one already; "
                "end that one first"
            )
        side[partner] = contract

    def remove(self, contract: Contract) -> None:
        """Nothing new is handed over by it; what is on loan stays until it is due."""
        side, partner = self._side(contract)
        if side.pop(partner, None) is None:
            raise InvalidArgumentError(
                f"contract {contract.buyer} → {contract.seller}: there is none to end"
            )

    def become(self, others: Contracts) -> None:
        """Have those and no others from now on."""
        self._buying, self._selling = dict(others._buying), dict(others._selling)

    def to(self, seller: str) -> Contract | None:
        return self._buying.get(seller)

    def of(self, buyer: str) -> Contract | None:
        return self._selling.get(buyer)

    def _side(self, contract: Contract) -> tuple[dict[str, Contract], str]:
        if contract.buyer == self.me:
            return self._buying, contract.seller
        if contract.seller == self.me:
            return self._selling, contract.buyer
        raise InvalidArgumentError(
            f"contract {contract.buyer} → {contract.seller}: is not one of {self.me}; leave it out"
        )
