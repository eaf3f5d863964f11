"""Taking in of load: offers gathered for a while, best paid first (ACCEPT_LOAD).

A place is kept for all that is promised until it is taken, released or over, and counts as load in
every later decision, as do tasks that are on their way home: no place is promised twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.federation.machine.commands import longest_hold
from holdfast.federation.machine.context import Office
from holdfast.federation.machine.contract import Contract
from holdfast.federation.machine.costs import Load
from holdfast.federation.machine.messages import Answer, Freed, Offer, Task
from holdfast.federation.machine.records import Promised, Unpromised
from holdfast.federation.machine.selection import bid, choose_taken, keep_apart

MAX_TASKS = 10_000
"""In one offer."""
MAX_PROMISES = 4
"""To one buyer at a time: it makes one offer at a time, and a letter may be late."""
VAIN = 8
"""Times that a buyer does not take what it is asked for, until others are asked before it."""


class Seller:
    def __init__(self, office: Office, coming: Callable[[], Load]) -> None:
        """`coming`: what is on its way home, and needs its place again."""
        self._office = office
        self._coming = coming
        self._offers: dict[str, Offer] = {}
        """The newest of each buyer."""
        self._closing: int | None = None
        self._outbid: dict[str, int] = {}
        """How often buyers did not take what was asked for, the last one last; the next time it is
        the valuation itself."""

    @property
    def due(self) -> int | None:
        ends = [each.until for each in self._office.books.promises.values()]
        if self._closing is not None:
            ends.append(self._closing)
        return min(ends, default=None)

    def offer(self, buyer: str, offer: Offer, now: int) -> None:
        books = self._office.books
        promise = books.promises.get((buyer, offer.number))
        if promise is not None:
            tasks = tuple(task.id for task in promise.tasks)
            self._office.say(buyer, Answer(offer.number, promise.price, tasks))
        elif (
            offer.number <= books.promised.get(buyer, 0)
            or self._office.is_buyer_held_off(buyer, now)
            or sum(each == buyer for each, _ in books.promises) >= MAX_PROMISES
            or not self._is_fair(buyer, offer)
        ):
            self._office.say(buyer, Answer(offer.number, offer.price, ()))
        else:
            known = self._offers.get(buyer)
            if known is None or known.number <= offer.number:
                self._offers[buyer] = offer
            if self._closing is None:
                self._closing = now + self._office.rules.gather

    def _is_fair(self, buyer: str, offer: Offer) -> bool:
        contract = self._office.contracts.of(buyer)
        return (
            contract is not None
            and contract.low <= offer.price <= contract.high
            and 0 < len(offer.tasks) <= MAX_TASKS
            and len({task.id for task in offer.tasks}) == len(offer.tasks)
            and offer.hold > 0
            and all(contract.allows(task.kind) for task in offer.tasks)
        )

    def release(self, buyer: str, number: int) -> None:
        promise = self._office.books.promises.get((buyer, number))
        offer = self._offers.get(buyer)
        if offer is not None and offer.number == number:
            del self._offers[buyer]
        if promise is not None:
            self._office.write(Unpromised(buyer, number))
            contract = self._office.contracts.of(buyer)
            if contract is not None and promise.price > contract.low:
                self._outbid[buyer] = self._outbid.pop(buyer, 0) + 1
        self._office.say(buyer, Freed(number))

    def wake(self, now: int) -> None:
        for (buyer, number), promise in list(self._office.books.promises.items()):
            if promise.until <= now:
                # It was neither taken nor released: places cannot be had for nothing.
                self._office.write(Unpromised(buyer, number))
                self._office.strike_buyer(buyer, now)
        if self._closing is not None and self._closing <= now:
            self._closing = None
            offers, self._offers = self._offers, {}
            late = [each for each, times in self._outbid.items() if times >= VAIN]
            for buyer in sorted(offers, key=lambda each: (-offers[each].price, each)):
                if self._decide(buyer, offers[buyer], now, asks=buyer not in late):
                    del offers[buyer]
            # A place is kept for whoever is asked for more: one who does not take it again and
            # again must not keep the others from being asked for good.
            for buyer in late:
                if buyer in offers:
                    self._decide(buyer, offers[buyer], now, asks=True)

    def _decide(self, buyer: str, offer: Offer, now: int, *, asks: bool) -> bool:
        """Answer, unless it is to be asked for more and is not to be asked yet."""
        contract = self._office.contracts.of(buyer)
        price: float = offer.price
        names: tuple[str, ...] = ()
        runnable = [
            task
            for task in offer.tasks
            if not self._office.is_held_off(self._office.me, now, task.id)
        ]
        possible = keep_apart(self._office.books.committed, runnable)
        apart = tuple(task.id for task in offer.tasks if task not in possible)
        if contract is not None:
            price, names = self._value(contract, offer.price, possible)
            if price > offer.price and not asks:
                return False
        if contract is not None and names:
            tasks = tuple(task for task in offer.tasks if task.id in names)
            until = now + min(offer.hold, longest_hold(contract, self._office.rules))
            self._office.write(Promised(buyer, offer.number, price, tasks, until))
        self._office.say(buyer, Answer(offer.number, price, names, apart))
        return True

    def _value(
        self, contract: Contract, price: float, tasks: Sequence[Task]
    ) -> tuple[float, tuple[str, ...]]:
        """What is taken at which price."""
        office, margin = self._office, self._office.rules.margin
        everything = office.books.expected + self._coming()
        loads = [(task.id, task.load) for task in tasks]
        taken = choose_taken(office.cost, everything, loads, price, contract.units, margin=margin)
        if taken:
            self._outbid.pop(contract.buyer, None)
            return price, tuple(taken)
        competitors = 0 if contract.buyer in self._outbid else office.rules.competitors
        asked = bid(office.cost, everything, loads, contract, competitors, margin=margin)
        return (price, ()) if asked is None else (asked.price, asked.tasks)
