"""Loans on the side that runs the task: prepared, run, renewed, given back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from holdfast.federation.machine.commands import Halt, Keep, Prepare, Start, Stop
from holdfast.federation.machine.context import Office
from holdfast.federation.machine.costs import Load, Units, marginal
from holdfast.federation.machine.ledger import Account, Dispute
from holdfast.federation.machine.messages import (
    Beat,
    Cancel,
    Cancelled,
    Closed,
    Commit,
    GiveBack,
    HandBack,
    LoanId,
    Ready,
    Refuse,
    Renew,
    Renewed,
    Report,
    Ship,
    Taken,
)
from holdfast.federation.machine.records import (
    Back,
    Borrowed,
    Claimed,
    Counted,
    Disputed,
    Ended,
    Holding,
    Served,
    State,
    Took,
    Unpromised,
)

MOST: Final = 1 << 62
"""Microseconds: for ever."""
SLACK: Final = 50
"""A claim is cut by one part in so many at most, for clocks differ."""
UNWRITTEN: Final = 2
"""Times `Rules.patience`: service that is not receipted is written down after so long. Receipts
come more often than that."""
UNPAID: Final = 4
"""Times `Rules.patience`: how long a task goes on that was given back and is not taken, and how
much may be served for one lender that is neither paid nor claimed."""
UNHEARD: Final = 2 + UNPAID + 1
"""Times `Rules.patience`: the most that is served for a lender that is down, beyond what it has
ordered or acknowledged: until it is given back, until it is given up, and while it is halted."""


class Borrower:
    def __init__(
        self, office: Office, runs_there: Callable[[LoanId], bool], coming: Callable[[], Load]
    ) -> None:
        self._office = office
        self._coming = coming
        """Tasks on their way home, which need their places again."""
        self._runs_there = runs_there
        """Whether what is lent on runs at the partner."""
        self._ready: set[LoanId] = set()
        self._halting: set[LoanId] = set()
        self._served: dict[LoanId, int] = {}
        """Microseconds for which I have run a task."""
        self._waiting: dict[LoanId, int] = {}
        """How long a lender has kept a task from running that is prepared for it."""
        self._lost: dict[str, int] = {}
        """Microseconds that were served for a lender and are neither paid nor claimed, less a share
        of what it has paid."""
        self._counted: int | None = None

    def reports_for(self, lender: str) -> tuple[Report, ...]:
        """The tasks of a lender, wherever they run."""
        return tuple(
            Report(key, holding.task.load, self._runs(holding), self._served_of(holding))
            for key, holding in self._office.books.holdings.items()
            if key.lender == lender and key.number and holding.state is State.MINE
        )

    def _runs(self, holding: Holding) -> bool:
        if holding.loan is not None and not holding.is_here:
            return self._runs_there(holding.loan.id)
        return holding.task.id not in self._office.broken

    def _served_of(self, holding: Holding) -> int:
        return max(holding.served or 0, holding.claimed, self._served.get(holding.key, 0))

    def count(self, now: int, gap: int) -> None:
        """The time that has passed was served by all that ran. Of a `gap` in which we did not run
        ourselves, only so much as nobody can have noticed."""
        passed = 0 if self._counted is None else now - self._counted
        passed = max(0, passed - max(0, gap - self._office.rules.patience))
        self._counted = now
        for key, holding in self._office.books.holdings.items():
            if not key.number:
                continue
            if holding.state is State.MINE and key not in self._office.resuming:
                runs = self._runs(holding)
                self._served[key] = self._served_of(holding) + (passed if runs else 0)
                if self._unwritten(holding) >= UNWRITTEN * self._office.rules.patience:
                    # Else whoever dies again and again serves for nothing for ever.
                    self._office.write(Claimed(key, self._served[key]))
            elif holding.state is State.PREPARING:
                self._waiting[key] = self._waiting.get(key, 0) + passed

    def receipts(self, sender: str, beat: Beat) -> None:
        """What a lender acknowledges: it cannot pay less any more."""
        is_kept = False
        for loan, served in beat.receipts:
            holding = self._held(sender, loan)
            if holding is None or holding.state is not State.MINE:
                continue
            if holding.served is None or served >= holding.served + self._office.rules.patience:
                if not is_kept:
                    self._office.do(Keep())
                    is_kept = True
                self._office.write(Counted(loan, max(0, served)))

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
            task = tasks.pop(shipment.task, None)
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
            self._office.clear(self._office.me, holding.task.id)
            self._ready.add(holding.key)
            self._office.say(holding.key.lender, Ready(holding.key))

    def unable(self, holding: Holding, now: int) -> None:
        if holding.state is State.PREPARING:
            self._office.strike(self._office.me, now, holding.task.id)
            self._drop(holding)

    def _drop(self, holding: Holding) -> None:
        """It does not begin here."""
        self._forget(holding.key)
        self._office.write(Ended(holding.key))
        self._office.do(Stop(holding.task.id, holding.running))
        self._office.say(holding.key.lender, Refuse(holding.key))

    def commit(self, sender: str, said: Commit, now: int) -> None:
        holding = self._held(sender, said.loan)
        if holding is None:
            if said.loan not in self._office.books.ledger.settled:
                self._office.say(sender, Refuse(said.loan))
            return
        if holding.state is State.PREPARING:
            if not _is_as_agreed(holding, said):
                self._drop(holding)
                return
            self._office.write(Took(said.loan, said.bucket, now))
            self._ready.discard(said.loan)
            self._waiting.pop(said.loan, None)
            self._office.do(Start(holding.task.id, holding.running, said.bucket))
        self._office.say(sender, Taken(said.loan))

    # Staying.

    def renew(self, sender: str, said: Renew, now: int) -> None:
        holding = self._held(sender, said.loan)
        if holding is None:
            self._deny(sender, said.loan)
            return
        if holding.state is not State.MINE or holding.duration is None:
            return
        booked = self._office.books.ledger.entry(said.loan, said.period)
        if booked is not None:
            self._office.say(sender, Renewed(said.loan, said.period, booked.units))
        elif said.period != holding.periods or not self._is_receipted(holding):
            # The first is said again when there is a receipt.
            return
        elif self._is_worth(holding, said.units):
            self._office.write(Served(said.loan, said.period, said.units, now))
            self._office.say(sender, Renewed(said.loan, said.period, said.units))
        else:
            self._give_back(holding, now)

    def _is_receipted(self, holding: Holding) -> bool:
        """Whether the lender has acknowledged what was served until now, but for what its beats and
        its journal lag behind."""
        is_known = holding.served is not None
        return is_known and self._unpaid(holding) <= 3 * self._office.rules.patience

    def _is_worth(self, holding: Holding, units: float) -> bool:
        """Whether another period pays. The load is what was measured here, whatever is said."""
        if self._office.is_leaving(holding.key) or not math.isfinite(units):
            return False
        contract = self._office.contracts.of(holding.key.lender)
        measured = (Units() if contract is None else contract.units).of(holding.task.load)
        if units < measured * (1 - self._office.rules.tolerance):
            return False
        paid = holding.price * units
        if holding.loan is not None:
            return holding.loan.price * units <= paid
        rest = self._office.books.expected - holding.task.load + self._coming()
        return marginal(self._office.cost, holding.task.load, rest) <= paid

    # Going.

    def recall(self, sender: str, loan: LoanId, now: int) -> None:
        holding = self._held(sender, loan)
        if holding is None:
            self._deny(sender, loan)
        elif holding.state is State.MINE and not self._is_early(holding):
            self._give_back(holding, now)

    def _is_early(self, holding: Holding) -> bool:
        """Whether the lender has ordered more than it has got: it takes all that it pays for."""
        if holding.key in self._office.returning or not self._runs(holding):
            return False
        if holding.duration is None:
            return True
        ordered = holding.periods * holding.duration - self._office.rules.patience
        return self._served_of(holding) < ordered

    def _deny(self, sender: str, loan: LoanId) -> None:
        """Whoever takes it to be here brings it home."""
        if loan.lender == sender and loan.number and loan not in self._office.books.ledger.settled:
            self._office.say(sender, Refuse(loan))

    def _give_back(self, holding: Holding, now: int) -> None:
        """At once if it is here; else as soon as its own loan is over."""
        if holding.loan is not None:
            self._office.wanted.add(holding.key)
        elif holding.key not in self._office.returning:
            self._office.wanted.discard(holding.key)
            self._office.returning.add(holding.key)
            lender = holding.key.lender
            self._office.ask(("back", holding.key), lender, GiveBack(holding.key), now)

    def take_over(self, sender: str, loan: LoanId) -> None:
        holding = self._held(sender, loan)
        if holding is None:
            self._deny(sender, loan)
            return
        if holding.state is not State.MINE or loan in self._halting:
            return
        if loan in self._office.resuming or self._is_early(holding):
            return
        if holding.loan is not None:
            self._office.wanted.add(loan)
        else:
            self._halt(holding)

    def _halt(self, holding: Holding) -> None:
        self._office.returning.add(holding.key)
        self._halting.add(holding.key)
        self._office.answered(("back", holding.key))
        self._office.do(Halt(holding.task.id, holding.running))

    def halted(self, holding: Holding, bucket: int, now: int) -> bool:
        """Whether that was to give it back."""
        if holding.key not in self._halting:
            return False
        self._halting.discard(holding.key)
        self._office.write(Back(holding.key, bucket, self._served_of(holding)))
        self._hand_back(holding, now)
        return True

    def _hand_back(self, holding: Holding, now: int) -> None:
        message = HandBack(holding.key, holding.bucket, holding.periods, holding.claimed)
        self._office.ask(("hand back", holding.key), holding.key.lender, message, now)

    def closed(self, sender: str, said: Closed, now: int) -> None:
        holding = self._held(sender, said.loan)
        if holding is not None and holding.state is State.BACK:
            slack = holding.claimed // SLACK + self._office.rules.patience
            least = Account(holding.periods, max(0, holding.claimed - slack))
            self._settle(holding, Account(said.periods, said.served), least, now)

    def cancel(self, sender: str, said: Cancel, now: int) -> None:
        if said.loan.lender != sender:
            return
        holding = self._held(sender, said.loan)
        if (sender, said.loan.number) in self._office.books.promises:
            self._office.write(Unpromised(sender, said.loan.number))
        if holding is not None:
            least = Account(0, 0)
            if holding.served is not None:
                least = Account(holding.periods, holding.served)
            self._settle(holding, Account(said.periods, said.served), least, now)
        ledger = self._office.books.ledger
        account = ledger.settled.get(said.loan, Account(0, 0))
        amount = math.fsum(each.amount for each in ledger.of(said.loan))
        self._office.say(sender, Cancelled(said.loan, account.periods, account.served, amount))

    def _settle(self, holding: Holding, offered: Account, least: Account, now: int) -> None:
        """A loan is over, and the lender says what it pays. Less than it owes for the `least` that
        was served is not taken for an answer: the claim stands, and the dispute is written down."""
        loan, ledger = holding.key, self._office.books.ledger
        account = Account(
            min(max(0, offered.periods), holding.periods), min(max(0, offered.served), MOST)
        )
        owed = ledger.value(loan, least)
        given = ledger.value(loan, account)
        dispute = None
        if given < owed * (1 - 1e-9):
            account = Account(holding.periods, self._served_of(holding))
            mine = ledger.value(loan, account)
            dispute = Disputed(Dispute(loan, loan.lender, mine, given))
        served = self._served_of(holding)
        whole = ledger.value(loan, Account(holding.periods, served))
        paid = int(served * min(1.0, given / whole)) if whole > 0 else served
        self._forget(loan)
        self._office.write(Ended(loan, account))
        if dispute is not None:
            self._office.write(dispute)
            self._office.strike_buyer(loan.lender, now)
        else:
            self._lose(loan.lender, served - paid, paid, now)
        self._office.do(Stop(holding.task.id, holding.running))

    def _lose(self, lender: str, unpaid: int, paid: int, now: int) -> None:
        """What was served without a receipt cannot be claimed. It is no dispute, for the lender may
        not have heard of it; but one who ends its loans like that again and again is a cheat."""
        lost = max(0, self._lost.get(lender, 0) + unpaid - paid // SLACK)
        if lost > UNPAID * self._office.rules.patience:
            self._office.strike_buyer(lender, now)
            lost = 0
        self._lost[lender] = lost

    def _forget(self, loan: LoanId) -> None:
        for each in (self._ready, self._halting, self._office.returning, self._office.wanted):
            each.discard(loan)
        self._served.pop(loan, None)
        self._waiting.pop(loan, None)
        for what in ("back", "hand back"):
            self._office.answered((what, loan))

    def wake(self, now: int) -> None:
        for holding in list(self._office.books.holdings.values()):
            lender = holding.key.lender
            if lender == self._office.me or holding.key.number == 0:
                continue
            waited = self._waiting.get(holding.key, 0)
            if holding.state is State.PREPARING and (
                self._office.is_silent(lender, now) or waited >= 2 * self._office.rules.prepare
            ):
                # Should it have been handed over after all, its lender brings it home.
                if waited >= 2 * self._office.rules.prepare:
                    self._office.strike_buyer(lender, now)
                self._drop(holding)
            elif self._is_given_up(holding):
                # Nobody pays, and nobody answers.
                self._office.strike_buyer(lender, now)
                self._halt(holding)
            elif self._is_wanted_home(holding):
                self._give_back(holding, now)

    def _is_wanted_home(self, holding: Holding) -> bool:
        if holding.state is not State.MINE or holding.key in self._office.returning:
            return False
        if holding.key in self._office.wanted:
            return holding.loan is None
        return self._left(holding) <= 0

    def _is_given_up(self, holding: Holding) -> bool:
        if holding.state is not State.MINE or not holding.is_idle:
            return False
        if holding.key in self._halting or holding.key in self._office.resuming:
            return False
        patience = UNPAID * self._office.rules.patience
        return self._left(holding) <= -patience and self._unpaid(holding) > patience

    def _unpaid(self, holding: Holding) -> int:
        """Microseconds that were served and for which there is no receipt."""
        return self._served_of(holding) - (holding.served or 0)

    def _unwritten(self, holding: Holding) -> int:
        """Microseconds of service that would be forgotten in a crash."""
        return self._served_of(holding) - max(holding.served or 0, holding.claimed)

    def _left(self, holding: Holding) -> int:
        """Microseconds for which it still runs: a lender that has not renewed what is over long
        since does not pay for it; nor does one that never acknowledges that it runs."""
        ordered = 0
        if holding.duration is not None:
            ordered = holding.periods * holding.duration
        elif holding.served is not None:
            return MOST
        return ordered + 2 * self._office.rules.patience - self._served_of(holding)

    @property
    def due(self) -> int | None:
        rules, times = self._office.rules, []
        since = self._counted or 0
        for holding in self._office.books.holdings.values():
            key = holding.key
            if key.number == 0:
                continue
            if holding.state is State.PREPARING:
                times.append(self._office.heard.get(key.lender, 0) + rules.patience + 1)
                times.append(since + 2 * rules.prepare - self._waiting.get(key, 0))
                continue
            if holding.state is not State.MINE:
                continue
            if self._runs(holding) and key not in self._office.resuming:
                times.append(since + UNWRITTEN * rules.patience - self._unwritten(holding))
            if holding.is_idle and key not in self._halting:
                left = self._left(holding)
                if key in self._office.returning or left <= 0:
                    patience = UNPAID * rules.patience
                    left = max(left + patience, patience - self._unpaid(holding) + 1)
                if left < MOST and self._runs(holding):
                    times.append(since + max(0, left))
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


def _is_as_agreed(holding: Holding, said: Commit) -> bool:
    """Whether what is handed over is paid as it was promised."""
    return (
        said.bucket >= 0
        and said.price == holding.price
        and said.duration == holding.duration
        and math.isclose(said.units, holding.units, rel_tol=1e-9)
    )
