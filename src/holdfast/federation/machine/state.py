"""Durable state of a load manager: tasks, promises, loans, money.

Nothing in here changes but by a record, live as after a crash. So the books of a manager that is
made anew from its journal are those that it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from holdfast.federation.machine.costs import Load, total
from holdfast.federation.machine.ledger import Account, Entry, Ledger
from holdfast.federation.machine.messages import LoanId, Task
from holdfast.federation.machine.records import (
    Aborted,
    Asked,
    Back,
    Begun,
    Borrowed,
    Claimed,
    Counted,
    Disputed,
    Ended,
    Failed,
    Gone,
    Handed,
    Holding,
    Home,
    Lent,
    Loan,
    LoanState,
    Offered,
    Out,
    Overruled,
    Owned,
    Promised,
    Record,
    Released,
    Restated,
    Served,
    Settled,
    State,
    Summary,
    Told,
    Took,
    Unpromised,
)


class Books:
    def __init__(self, me: str, records: Iterable[Record] = ()) -> None:
        self.me = me
        self.ledger = Ledger(me)
        self.holdings: dict[LoanId, Holding] = {}
        self.lent: dict[LoanId, LoanId] = {}
        """The keys of what is on loan, by loan."""
        self.offers: dict[int, Offered] = {}
        self.number = 0
        """Of the last offer."""
        self.life = 0
        self.promises: dict[tuple[str, int], Promised] = {}
        self.promised: dict[str, int] = {}
        """The highest number that a buyer was promised anything for. Lower ones are old news."""
        self.untold: dict[LoanId, tuple[str, Account]] = {}
        """Loans that are cancelled, and offers released (task ""): whom to tell, and what of a
        loan is paid."""
        for record in records:
            self.write(record)

    # What follows from them.

    @property
    def here(self) -> Iterator[Holding]:
        return (each for each in self.holdings.values() if each.is_here)

    @property
    def staying(self) -> Load:
        """All that runs here and is not about to be handed over."""
        return total(each.task.load for each in self.holdings.values() if each.is_idle)

    @property
    def expected(self) -> Load:
        """All that runs here or has been promised a place: what one takes more on top of."""
        running = [each.task.load for each in self.holdings.values() if each.is_here]
        coming = [
            each.task.load for each in self.holdings.values() if each.state is State.PREPARING
        ]
        promised = [task.load for each in self.promises.values() for task in each.tasks]
        return total([*running, *coming, *promised])

    @property
    def committed(self) -> list[Task]:
        """All that is held, wherever it runs, or has been promised a place."""
        promised = [task for each in self.promises.values() for task in each.tasks]
        return [each.task for each in self.holdings.values()] + promised

    def loan(self, loan: LoanId) -> Loan | None:
        key = self.lent.get(loan)
        return None if key is None else self.holdings[key].loan

    @property
    def loans(self) -> list[Loan]:
        return [each.loan for each in self.holdings.values() if each.loan is not None]

    @property
    def latest(self) -> int:
        """The latest time that they know of."""
        times = [each.since for each in self.holdings.values()]
        times += [time for each in self.loans for time in (each.handed, each.since)]
        return max(times, default=0)

    # Writing.

    def summary(self) -> Summary:
        """One record from which the same books come as from all that were written."""
        return Summary(
            tuple(_copy(each) for each in self.holdings.values()),
            tuple(self.offers.values()),
            self.number,
            tuple(self.promises.values()),
            tuple(self.promised.items()),
            tuple((loan, *told) for loan, told in self.untold.items()),
            tuple(self.ledger),
            tuple(self.ledger.settled.items()),
            tuple(self.ledger.disputes.values()),
            self.life,
        )

    def _restore(self, said: Summary) -> None:
        self.ledger = Ledger(self.me, said.entries, dict(said.settled), said.disputes)
        self.holdings = {each.key: _copy(each) for each in said.holdings}
        self.lent = {each.loan.id: each.key for each in said.holdings if each.loan is not None}
        self.offers = {each.number: each for each in said.offers}
        self.number = said.number
        self.life = said.life
        self.promises = {(each.buyer, each.number): each for each in said.promises}
        self.promised = dict(said.promised)
        self.untold = {loan: (partner, account) for loan, partner, account in said.untold}

    def write(self, record: Record) -> None:
        match record:
            case Summary():
                self._restore(record)
            case Begun(life):
                self.life = life
            case Owned(task):
                key = LoanId(self.me, 0, task.id)
                self.holdings[key] = Holding(key, task, (), State.MINE, (0,))
            case Gone(name):
                self._drop(LoanId(self.me, 0, name))
            case Restated(key, load):
                holding = self.holdings[key]
                holding.task = replace(holding.task, load=load)
            case Served(loan, period, units, at):
                self._serve(loan, period, units, at)
            case Counted(loan, served):
                self._count(loan, served)
            case Disputed(dispute):
                self.ledger.dispute(dispute)
            case Offered() | Settled() | Released() | Lent() | Told():
                self._write_offering(record)
            case Aborted() | Handed() | Out() | Asked() | Failed() | Home():
                self._write_lending(record)
            case _:
                self._write_selling(record)

    def _write_offering(self, record: Offered | Settled | Released | Lent | Told) -> None:
        match record:
            case Offered(number):
                self.offers[number] = record
                self.number = max(self.number, number)
            case Settled(number):
                self.offers.pop(number, None)
            case Released(number):
                offer = self.offers.pop(number)
                self.untold[LoanId(self.me, number, "")] = (offer.partner, Account(0, 0))
            case Lent(number, partner, price, duration, lots):
                self.offers.pop(number, None)
                for lot in lots:
                    loan = LoanId(self.me, number, lot.key.task)
                    holding = self.holdings[lot.key]
                    holding.turns += 1
                    holding.loan = Loan(loan, partner, price, lot.units, duration, lot.epoch)
                    self.lent[loan] = lot.key
            case Told(loan):
                self.untold.pop(loan, None)

    def _write_lending(self, record: Aborted | Handed | Out | Asked | Failed | Home) -> None:
        holding = self.holdings[self.lent[record.loan]]
        loan = holding.loan
        assert loan is not None
        match record:
            case Aborted():
                self._cancel(holding)
            case Handed(_, bucket, at):
                loan.state, loan.bucket, loan.handed = LoanState.HANDED, bucket, at
            case Out(_, at):
                loan.state = LoanState.OUT
                self._serve(loan.id, 0, loan.units, at)
            case Asked(_, period, units):
                loan.asked = (period, units)
            case Failed(_, epoch, account):
                loan.state, loan.home = LoanState.FENCING, epoch
                self.ledger.settle(loan.id, account)
                self.untold[loan.id] = (loan.partner, account)
            case Home(_, epoch, account):
                if account is not None:
                    self.ledger.settle(loan.id, account)
                holding.turns += 1
                holding.running = epoch
                holding.loan = None
                del self.lent[record.loan]

    def _write_selling(
        self, record: Promised | Unpromised | Borrowed | Took | Claimed | Back | Overruled | Ended
    ) -> None:
        match record:
            case Promised(buyer, number):
                self.promises[buyer, number] = record
                self.promised[buyer] = max(self.promised.get(buyer, 0), number)
            case Unpromised(buyer, number):
                self.promises.pop((buyer, number), None)
            case Borrowed():
                self._keep_promise(record)
                self.holdings[record.loan] = Holding(
                    record.loan,
                    record.task,
                    record.epoch,
                    State.PREPARING,
                    record.epoch,
                    price=record.price,
                    units=record.units,
                    duration=record.duration,
                    onward=record.onward,
                )
            case Took(loan, bucket, at):
                holding = self.holdings[loan]
                holding.state, holding.bucket = State.MINE, bucket
                self._serve(loan, 0, holding.units, at)
            case Claimed(loan, served):
                self.holdings[loan].claimed = served
            case Back(loan, bucket, served):
                holding = self.holdings[loan]
                holding.state, holding.bucket, holding.claimed = State.BACK, bucket, served
            case Overruled(key):
                holding = self.holdings[key]
                holding.state = State.OVERRULED
                if holding.loan is not None:
                    self._cancel(holding)
            case Ended(loan, account):
                self._drop(loan)
                if account is not None:
                    self.ledger.settle(loan, account)

    def _keep_promise(self, record: Borrowed) -> None:
        key = (record.loan.lender, record.loan.number)
        promise = self.promises.get(key)
        if promise is not None:
            rest = tuple(task for task in promise.tasks if task.id != record.task.id)
            self.promises[key] = replace(promise, tasks=rest)
            if not rest:
                del self.promises[key]

    def _serve(self, loan: LoanId, period: int, units: float, at: int) -> None:
        out = self.loan(loan)
        side, seller = (self.holdings.get(loan), self.me) if out is None else (out, out.partner)
        if side is not None:
            side.periods, side.since = period + 1, at
            entry = Entry(loan, period, seller, side.price, units, side.duration)
            self.ledger.write(entry)

    def _count(self, loan: LoanId, served: int) -> None:
        out = self.loan(loan)
        if out is not None:
            out.served = max(out.served, served)
        elif loan in self.holdings:
            holding = self.holdings[loan]
            holding.served = max(holding.served or 0, served)

    def _cancel(self, holding: Holding, *, whole: bool = False) -> None:
        """What is on loan is not, and the partner is to be told. What was served is paid; all of
        the period that was begun if it is `whole`."""
        loan = holding.loan
        assert loan is not None
        holding.loan = None
        del self.lent[loan.id]
        if loan.state is not LoanState.FENCING:
            least = loan.periods * (loan.duration or 0) if whole else 0
            account = Account(loan.periods, max(loan.served, least))
            self.ledger.settle(loan.id, account)
            self.untold[loan.id] = (loan.partner, account)

    def _drop(self, key: LoanId) -> None:
        holding = self.holdings.pop(key, None)
        if holding is not None and holding.loan is not None:
            self._cancel(holding, whole=key.number == 0)


def _copy(holding: Holding) -> Holding:
    """The books change theirs; what was written down stays as it was."""
    return replace(holding, loan=None if holding.loan is None else replace(holding.loan))
