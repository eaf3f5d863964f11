"""What nobody may do to itself: take, hand over or keep out at a loss, or promise a place twice.

Calculated anew from the books and from what was said, not by the functions that decide.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from holdfast.federation.machine import (
    Command,
    Load,
    LoanId,
    Manager,
    Persist,
    Prepare,
    Send,
    State,
)
from holdfast.federation.machine.messages import GiveBack, Recall
from holdfast.federation.machine.records import Asked, Failed, Lent, Offered, Promised, Served


class Decisions:
    """Decisions of one load manager, from its start to its end."""

    def __init__(self) -> None:
        self._leaving: set[LoanId] = set()
        """Tasks that it has given back: what it takes from then on is not for long."""
        self._coming: set[LoanId] = set()
        """Loans that it brings home."""
        self._offers: dict[int, tuple[float, Load]] = {}
        """The price of each offer, and what ran there for the time to come when it was made."""
        self._later: set[LoanId] = set()
        """What is handed over by a later one of the commands at hand: the books know it already."""

    def losses(
        self, manager: Manager, commands: Sequence[Command], *, is_static: bool
    ) -> Iterator[str]:
        """What is wrong with decisions just made. Loads change between an offer and its answer:
        unless all `is_static`, what is handed over is judged by the offer alone."""
        records = [each.record for each in commands if isinstance(each, Persist)]
        yield from self._promised(manager, [each for each in records if isinstance(each, Promised)])
        self._later = {lot.key for each in records if isinstance(each, Lent) for lot in each.lots}
        for command in commands:
            match command:
                case Send(_, letter) if isinstance(letter.message, GiveBack):
                    self._leaving.add(letter.message.loan)
                case Send(_, letter) if isinstance(letter.message, Recall):
                    self._coming.add(letter.message.loan)
                case Prepare(task, epoch):
                    self._coming |= {
                        loan
                        for loan, key in manager.books.lent.items()
                        if key.task == task and manager.books.holdings[key].next_epoch == epoch
                    }
                case Persist(Offered() as offered):
                    yield from self._offered(manager, offered)
                case Persist(Lent() as lent):
                    self._later -= {lot.key for lot in lent.lots}
                    if is_static:
                        yield from self._lent(manager, lent)
                case Persist(Failed(loan)):
                    self._coming.add(loan)
                case Persist(Asked() as asked):
                    yield from self._asked(manager, asked)
                case Persist(Served() as served) if served.loan.lender != manager.me:
                    yield from self._renewed(manager, served)

    def _staying(self, manager: Manager) -> Load:
        return _sum(
            [
                each.task.load
                for key, each in manager.books.holdings.items()
                if (each.is_idle or key in self._later) and key not in self._leaving
            ]
        )

    def _offered(self, manager: Manager, offered: Offered) -> Iterator[str]:
        """It binds, so it must pay when it is made."""
        staying = self._staying(manager)
        self._offers[offered.number] = (offered.price, staying)
        contract = manager.contracts.to(offered.partner)
        if contract is None:
            yield f"{manager.me} offered to {offered.partner} without a contract"
            return
        going = _sum([task.load for task in offered.tasks])
        saved = manager.cost(staying) - manager.cost(staying - going)
        paid = offered.price * sum(contract.units.of(task.load) for task in offered.tasks)
        if saved <= paid * (1 - 1e-9):
            yield f"{manager.me} offers {paid} to save {saved}"

    def _lent(self, manager: Manager, lent: Lent) -> Iterator[str]:
        """It costs less there than here. One who accepts an offer as it is gets what was offered,
        whatever has left meanwhile; a higher price is agreed to only now."""
        books = manager.books
        going = _sum([books.holdings[lot.key].task.load for lot in lent.lots])
        price, before = self._offers.get(lent.number, (None, Load()))
        if price != lent.price:
            before = _sum([self._staying(manager), going])
        saved = manager.cost(before) - manager.cost(before - going)
        paid = sum(lent.price * lot.units for lot in lent.lots)
        if saved <= paid * (1 - 1e-9):
            yield f"{manager.me} pays {paid} to save {saved}"

    def _asked(self, manager: Manager, asked: Asked) -> Iterator[str]:
        """Another period costs no more than to have it here, with all that comes home as well."""
        books = manager.books
        loan = books.loan(asked.loan)
        if loan is None:
            return
        rest = _sum([self._staying(manager), *self._home(manager, own=False)])
        task = books.holdings[books.lent[asked.loan]].task.load
        saved = manager.cost(_sum([rest, task])) - manager.cost(rest)
        paid = loan.price * asked.units
        if saved < paid * (1 - 1e-9) - 1e-12:
            yield f"{manager.me} renews for {paid} to save {saved}"

    def _renewed(self, manager: Manager, served: Served) -> Iterator[str]:
        """Another period pays on top of all else that stays or comes, unless it is lent on."""
        holding = manager.books.holdings.get(served.loan)
        if holding is None or not holding.is_idle:
            return
        rest = _sum([*self._taken(manager, served.loan), *self._home(manager, own=True)])
        more = manager.cost(_sum([rest, holding.task.load])) - manager.cost(rest)
        paid = holding.price * served.units
        if more > paid * (1 + 1e-9) + 1e-12:
            yield f"{manager.me} agrees to renew {served.loan} at a loss: {more} for {paid}"

    def _promised(self, manager: Manager, news: Sequence[Promised]) -> Iterator[str]:
        """Each pays on top of all that runs, comes home or was promised before."""
        new = {(each.buyer, each.number) for each in news}
        before = _sum([*self._taken(manager, None, new), *self._home(manager, own=True)])
        for each in news:
            contract = manager.contracts.of(each.buyer)
            if contract is None or not contract.low <= each.price <= contract.high:
                yield f"{manager.me} asked {each.price}, which no contract says"
                continue
            after = _sum([before, *(task.load for task in each.tasks)])
            paid = each.price * sum(contract.units.of(task.load) for task in each.tasks)
            more = manager.cost(after) - manager.cost(before)
            if more > paid * (1 + 1e-9) + 1e-12:
                yield f"{manager.me} promised {each.tasks} at a loss: {more} for {paid}"
            before = after

    def _taken(
        self,
        manager: Manager,
        without: LoanId | None = None,
        new: Collection[tuple[str, int]] = (),
    ) -> list[Load]:
        """All that has a place here, but for this one and for promises that are new. Until it is
        gone, what is given back has one."""
        books = manager.books
        here = [
            each.task.load
            for key, each in books.holdings.items()
            if key != without and (each.is_here or each.state is State.PREPARING)
        ]
        promised = [each for key, each in books.promises.items() if key not in new]
        return [*here, *(task.load for each in promised for task in each.tasks)]

    def _home(self, manager: Manager, *, own: bool) -> list[Load]:
        """All that comes home; with `own`, only what cannot be wanted by somebody else in turn."""
        books = manager.books
        return [
            books.holdings[key].task.load
            for loan, key in books.lent.items()
            if loan in self._coming and not (own and key.number)
        ]


def _sum(loads: Sequence[Load]) -> Load:
    return sum(loads, Load())
