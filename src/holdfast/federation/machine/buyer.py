"""Handing out of load: rounds of offers, cheapest partner first (OFFER_LOAD, 6.6.2).

A round asks each partner at the lowest price of its contract. The first who accepts gets what it
takes, and the round is over. Who asks for more is remembered; if nobody accepts, the lowest of them
wins if that still pays, and the others are released: a sealed reverse auction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from holdfast.federation.machine.commands import longest_hold
from holdfast.federation.machine.context import Office
from holdfast.federation.machine.contract import Contract
from holdfast.federation.machine.costs import Load, Units
from holdfast.federation.machine.messages import Answer, LoanId, Offer, Release
from holdfast.federation.machine.records import Lent, Lot, Offered, Released, Settled
from holdfast.federation.machine.selection import choose_offer

Ship = Callable[[int, str, Sequence[LoanId], int], None]


class Buyer:
    def __init__(self, office: Office, ship: Ship) -> None:
        self._office = office
        self._ship = ship
        self.next_round = 0
        self._round: deque[Contract] | None = None
        self._resume = 0
        self._awaited: dict[int, int] = {}
        """Offers without an answer, and until when one waits."""
        self._bids: dict[int, Answer] = {}
        self._backoff: dict[str, int] = {}
        self.apart: dict[tuple[str, str], int] = {}
        """Tasks that a partner cannot take, for it has another replica of their stage, and until
        when it is not asked again."""

    def recover(self, now: int) -> None:
        """Offers bind: what was offered before the crash is asked again."""
        for number in list(self._office.books.offers):
            self._send(number, now)
        self._round = deque()

    def excuse(self, gap: int, now: int) -> None:
        """We were not running: what was answered waits to be heard."""
        soon = now + self._office.rules.answer // 2
        self._awaited = {each: max(until + gap, soon) for each, until in self._awaited.items()}

    @property
    def due(self) -> int:
        if self._awaited:
            return min(self._awaited.values())
        return self.next_round if self._round is None else self._resume

    def wake(self, now: int) -> None:
        for number, until in list(self._awaited.items()):
            if until <= now:
                self._miss(number, now)
        if self._round is None and now >= self.next_round:
            self._begin(now)
        if self._round is not None and not self._awaited and now >= self._resume:
            self._go_on(now)

    def answer(self, sender: str, answer: Answer, now: int) -> None:
        offer = self._office.books.offers.get(answer.number)
        if offer is None or offer.partner != sender:
            if answer.tasks:
                self._office.say(sender, Release(answer.number))
            return
        if answer.number not in self._awaited:
            return
        del self._awaited[answer.number]
        self._office.answered(("offer", answer.number))
        apart = {key.task for key in offer.keys}.intersection(answer.apart)
        self.apart |= {(sender, name): now + self._office.wait(sender) for name in apart}
        if not self._is_fair(answer):
            self._refuse(answer.number, now)
        elif not answer.tasks:
            self._office.write(Settled(answer.number))
            contract = self._office.contracts.to(sender)
            if apart and contract is not None and self._round is not None:
                # Others may be welcome: that was not for want of room.
                self._round.appendleft(contract)
            else:
                self._hold_off(sender, now)
        elif answer.price > offer.price:
            self._bids[answer.number] = answer
            self._resume = now + self._office.rules.pause
        else:
            self._deal(answer, [key for key in offer.keys if key.task in answer.tasks], now)
            return
        self._continue(now)

    def _is_fair(self, answer: Answer) -> bool:
        """Whether it is one that the contract allows: a promise of nothing else binds."""
        offer = self._office.books.offers[answer.number]
        contract = self._office.contracts.to(offer.partner)
        high = offer.price if contract is None else contract.high
        names = {key.task for key in offer.keys}
        return offer.price <= answer.price <= high and names.issuperset(answer.tasks)

    # A round.

    def _begin(self, now: int) -> None:
        office = self._office
        open_now = [
            each
            for each in office.contracts.buying
            if self._backoff.get(each.seller, 0) <= now and not office.is_held_off(each.seller, now)
        ]
        # Who has not kept its word loses its turn to those who have.
        open_now.sort(key=lambda each: (each.seller in office.failed, office.strikes(each.seller)))
        self._round = deque(open_now)
        self.apart = {each: until for each, until in self.apart.items() if until > now}
        self._resume = now

    def _go_on(self, now: int) -> None:
        """Ask the next partner to whom anything is worth handing."""
        assert self._round is not None
        while self._round:
            contract = self._round.popleft()
            keys = self._choose(contract, contract.low, now)
            if keys:
                number = max(self._office.books.number, self._office.started) + 1
                tasks = tuple(self._office.books.holdings[key].task for key in keys)
                offered = Offered(number, contract.seller, contract.low, tuple(keys), tasks)
                self._office.write(offered)
                self._send(number, now)
                return
        self._settle(now)

    def _continue(self, now: int) -> None:
        if self._round is not None and not self._awaited and now >= self._resume:
            self._go_on(now)

    def _choose(
        self, contract: Contract, price: float, now: int, among: Sequence[LoanId] | None = None
    ) -> list[LoanId]:
        books, rules = self._office.books, self._office.rules
        loads: list[tuple[LoanId, Load]] = [
            (key, holding.task.load)
            for key, holding in sorted(books.holdings.items())
            if holding.is_idle and holding.onward and contract.allows(holding.task.kind)
            if not self._office.is_leaving(key) and (among is None or key in among)
            if (contract.seller, holding.task.id) not in self.apart
            if not self._office.is_held_off(contract.seller, now, holding.task.id)
        ]
        return choose_offer(
            self._office.cost,
            self._office.staying,
            _one_of_each(loads),
            price,
            contract.units,
            margin=rules.margin,
            migration=rules.migration,
        )

    def _send(self, number: int, now: int) -> None:
        books, rules = self._office.books, self._office.rules
        offer = books.offers[number]
        hold = (rules.answer + rules.pause) * (len(self._office.contracts.buying) + 1)
        contract = self._office.contracts.to(offer.partner)
        if contract is not None:
            hold = min(hold, longest_hold(contract, rules))
        self._awaited[number] = now + rules.answer
        message = Offer(number, offer.price, offer.tasks, hold)
        self._office.ask(("offer", number), offer.partner, message, now)

    def _miss(self, number: int, now: int) -> None:
        """Silence is a refusal; but the partner may have promised, so it is told."""
        del self._awaited[number]
        self._office.answered(("offer", number))
        self._office.failed.add(self._office.books.offers[number].partner)
        self._refuse(number, now)

    def _refuse(self, number: int, now: int) -> None:
        partner = self._office.books.offers[number].partner
        self._office.write(Released(number))
        self._hold_off(partner, now)

    def _hold_off(self, partner: str, now: int) -> None:
        self._backoff[partner] = now + self._office.wait(partner)
        self._resume = now + self._office.rules.pause

    def _settle(self, now: int) -> None:
        """All partners have been asked, and none has accepted."""
        for number, answer in sorted(self._bids.items(), key=lambda each: each[1].price):
            offer = self._office.books.offers[number]
            contract = self._office.contracts.to(offer.partner)
            offered = [key for key in offer.keys if key.task in answer.tasks]
            keys = [] if contract is None else self._choose(contract, answer.price, now, offered)
            if keys:
                self._deal(answer, keys, now)
                return
        self._end(now)

    def _deal(self, answer: Answer, keys: Sequence[LoanId], now: int) -> None:
        """Hand these over at the price of the answer."""
        books = self._office.books
        offer = books.offers[answer.number]
        contract = self._office.contracts.to(offer.partner)
        units = Units() if contract is None else contract.units
        duration = None if contract is None else contract.duration
        loads = {task.id: task.load for task in offer.tasks}
        lots = tuple(
            Lot(key, units.of(loads[key.task]), books.holdings[key].next_epoch)
            for key in keys
            if key in books.holdings and books.holdings[key].is_idle
            if not self._office.is_leaving(key)
        )
        self._bids.pop(answer.number, None)
        if lots:
            self._office.write(Lent(answer.number, offer.partner, answer.price, duration, lots))
            loans = [LoanId(self._office.me, answer.number, lot.key.task) for lot in lots]
            self._ship(answer.number, offer.partner, loans, now)
        else:
            self._office.write(Released(answer.number))
        self._end(now)

    def _end(self, now: int) -> None:
        """Whoever has made a promise that is not needed is told so."""
        for number in [*self._bids, *self._awaited]:
            self._office.answered(("offer", number))
            self._office.write(Released(number))
        self._bids.clear()
        self._awaited.clear()
        self._round = None
        self.next_round = now + self._office.rules.period


def _one_of_each(loads: Sequence[tuple[LoanId, Load]]) -> list[tuple[LoanId, Load]]:
    """A task that came back by another way is held twice and runs once."""
    found = {key.task: (key, load) for key, load in loads}
    return [each for each in loads if found[each[0].task] == each]
