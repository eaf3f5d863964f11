"""What is on loan here: prepared, run from a bucket on, kept for another period or given back."""

from __future__ import annotations

from holdfast.protocol.contracts.commands import Halt, Prepare, Start, Stop
from holdfast.protocol.contracts.costs import marginal
from holdfast.protocol.contracts.holdings import Holding, State
from holdfast.protocol.contracts.loads import Load
from holdfast.protocol.contracts.messages import (
    Cancel,
    Cancelled,
    Commit,
    GiveBack,
    HandBack,
    Ready,
    Refuse,
    Renew,
    Renewed,
    Ship,
    Taken,
)
from holdfast.protocol.contracts.office import Office
from holdfast.protocol.contracts.records import Back, Borrowed, Ended, Served, Took, Unpromised
from holdfast.protocol.contracts.tasks import LoanId

__all__ = ["Borrower"]


class Borrower:
    def __init__(self, office: Office, wanted: set[LoanId]) -> None:
        self._office = office
        self._wanted = wanted
        """What lenders want back though it is lent on: shared with who lends."""
        self._ready: set[LoanId] = set()
        self._returning: set[LoanId] = set()
        self._halting: set[LoanId] = set()

    def is_leaving(self, key: LoanId) -> bool:
        return key in self._returning or key in self._wanted

    def loads_of(self, lender: str) -> tuple[tuple[LoanId, Load], ...]:
        """What the tasks of a lender take, wherever they run."""
        return tuple(
            (key, holding.task.load)
            for key, holding in self._office.books.holdings.items()
            if key.lender == lender and key.number and holding.state is State.MINE
        )

    # Coming.

    def ship(self, sender: str, said: Ship, now: int) -> None:
        books = self._office.books
        promise = books.promises.get((sender, said.number))
        if promise is not None and (promise.until <= now or promise.price != said.price):
            promise = None
        tasks = {} if promise is None else {task.id: task for task in promise.tasks}
        contract = self._office.contracts.of(sender)
        for shipment in said.shipments:
            loan = LoanId(sender, said.number, shipment.task)
            if loan in books.holdings:
                if loan in self._ready:
                    self._office.say(sender, Ready(loan))
                continue
            task = tasks.get(shipment.task)
            if task is None or contract is None or not shipment.epoch:
                self._office.say(sender, Refuse(loan))
                continue
            units = contract.units.of(task.load)
            borrowed = Borrowed(
                loan,
                task,
                shipment.epoch,
                said.price,
                units,
                contract.duration,
                contract.onward,
            )
            self._office.write(borrowed)
            self._office.do(Prepare(task.id, shipment.epoch, sender))
        if (sender, said.number) in books.promises:
            # What is left of the promise is not needed.
            self._office.write(Unpromised(sender, said.number))

    def prepared(self, holding: Holding) -> None:
        if holding.state is State.PREPARING:
            self._ready.add(holding.key)
            self._office.say(holding.key.lender, Ready(holding.key))

    def unable(self, holding: Holding) -> None:
        if holding.state is State.PREPARING:
            self._office.write(Ended(holding.key, 0))
            self._office.say(holding.key.lender, Refuse(holding.key))

    def commit(self, sender: str, said: Commit, now: int) -> None:
        holding = self._held(sender, said.loan)
        if holding is None:
            self._office.say(sender, Refuse(said.loan))
            return
        if holding.state is State.PREPARING:
            self._office.write(Took(said.loan, said.bucket, now))
            self._ready.discard(said.loan)
            self._office.do(Start(holding.task.id, holding.running, said.bucket))
        self._office.say(sender, Taken(said.loan))

    # Staying.

    def renew(self, sender: str, said: Renew, now: int) -> None:
        holding = self._held(sender, said.loan)
        if holding is None or holding.state is not State.MINE:
            return
        if said.period < holding.periods:
            self._office.say(sender, Renewed(said.loan, said.period, said.units))
        elif said.period == holding.periods and self._is_worth(holding, said.units):
            self._office.write(Served(said.loan, said.period, said.units))
            self._office.say(sender, Renewed(said.loan, said.period, said.units))
        else:
            self._give_back(holding, now)

    def _is_worth(self, holding: Holding, units: float) -> bool:
        """Whether another period pays. The load is what was measured here, whatever is said."""
        if self.is_leaving(holding.key):
            return False
        paid = holding.price * units
        if holding.loan is not None:
            return holding.loan.price * units <= paid
        rest = self._office.books.expected - holding.task.load
        return marginal(self._office.cost, holding.task.load, rest) <= paid

    # Going.

    def recall(self, sender: str, loan: LoanId, now: int) -> None:
        holding = self._held(sender, loan)
        if holding is not None and holding.state is State.MINE:
            self._give_back(holding, now)

    def _give_back(self, holding: Holding, now: int) -> None:
        """At once if it is here; else as soon as its own loan is over."""
        if holding.loan is not None:
            self._wanted.add(holding.key)
        elif holding.key not in self._returning:
            self._wanted.discard(holding.key)
            self._returning.add(holding.key)
            lender = holding.key.lender
            self._office.ask(("back", holding.key), lender, GiveBack(holding.key), now)

    def take_over(self, sender: str, loan: LoanId) -> None:
        holding = self._held(sender, loan)
        if holding is None or holding.state is not State.MINE or loan in self._halting:
            return
        if loan in self._office.resuming:
            return
        if holding.loan is not None:
            self._wanted.add(loan)
        else:
            self._returning.add(loan)
            self._halting.add(loan)
            self._office.answered(("back", loan))
            self._office.do(Halt(holding.task.id, holding.running))

    def halted(self, holding: Holding, bucket: int, now: int) -> bool:
        """Whether that was to give it back."""
        if holding.key not in self._halting:
            return False
        self._halting.discard(holding.key)
        self._office.write(Back(holding.key, bucket))
        self._hand_back(holding, now)
        return True

    def _hand_back(self, holding: Holding, now: int) -> None:
        message = HandBack(holding.key, holding.bucket, holding.periods)
        self._office.ask(("hand back", holding.key), holding.key.lender, message, now)

    def closed(self, sender: str, loan: LoanId) -> None:
        holding = self._held(sender, loan)
        if holding is not None and holding.state is State.BACK:
            self._forget(loan)
            self._office.write(Ended(loan))
            self._office.do(Stop(holding.task.id, holding.running))

    def cancel(self, sender: str, said: Cancel) -> None:
        if said.loan.lender != sender:
            return
        holding = self._held(sender, said.loan)
        if (sender, said.loan.number) in self._office.books.promises:
            self._office.write(Unpromised(sender, said.loan.number))
        if holding is not None:
            self._forget(said.loan)
            self._office.write(Ended(said.loan, said.paid))
            self._office.do(Stop(holding.task.id, holding.running))
        self._office.say(sender, Cancelled(said.loan))

    def _forget(self, loan: LoanId) -> None:
        for each in (self._ready, self._returning, self._halting, self._wanted):
            each.discard(loan)
        for what in ("back", "hand back"):
            self._office.answered((what, loan))

    def wake(self, now: int) -> None:
        for holding in list(self._office.books.holdings.values()):
            lender = holding.key.lender
            if lender == self._office.me or holding.key.number == 0:
                continue
            if holding.state is State.PREPARING and self._office.is_silent(lender, now):
                # Should it have been handed over after all, its lender brings it home.
                self._forget(holding.key)
                self._office.write(Ended(holding.key, 0))
                self._office.do(Stop(holding.task.id, holding.running))
            elif self._is_wanted_home(holding, now):
                self._give_back(holding, now)

    def _is_wanted_home(self, holding: Holding, now: int) -> bool:
        if holding.state is not State.MINE or holding.key in self._returning:
            return False
        if holding.key in self._wanted:
            return holding.loan is None
        return holding.duration is not None and now >= self._end_of_patience(holding)

    def _end_of_patience(self, holding: Holding) -> int:
        """A lender that has not renewed what is over long since does not pay for it."""
        assert holding.duration is not None
        return (
            holding.since
            + max(1, holding.periods) * holding.duration
            + 2 * self._office.rules.patience
        )

    @property
    def due(self) -> int | None:
        times = []
        for holding in self._office.books.holdings.values():
            if holding.key.number == 0:
                continue
            if holding.state is State.PREPARING:
                heard = self._office.heard.get(holding.key.lender, 0)
                times.append(heard + self._office.rules.patience + 1)
            elif (
                holding.state is State.MINE
                and holding.duration is not None
                and holding.key not in self._returning
                and holding.key not in self._wanted
            ):
                times.append(self._end_of_patience(holding))
        return min(times, default=None)

    # After a crash.

    def recover(self, now: int) -> None:
        for holding in self._office.books.holdings.values():
            if holding.key.number == 0:
                continue
            self._office.heard.setdefault(holding.key.lender, now)
            if holding.state is State.PREPARING:
                self._office.do(Prepare(holding.task.id, holding.running, holding.key.lender))
            elif holding.state is State.BACK:
                self._hand_back(holding, now)

    def _held(self, sender: str, loan: LoanId) -> Holding | None:
        if loan.lender != sender or loan.number == 0:
            return None
        return self._office.books.holdings.get(loan)
