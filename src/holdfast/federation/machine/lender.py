"""Loans on the side that owns the task: shipped, handed over, paid, returned.

A loan is *handed over* once it is written from which bucket on the partner runs the task. Before
that it may be called off at any time; after that it comes home by being given back, or, when the
partner is silent, behind a fence: its readers refuse the partner's outputs from then on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from holdfast.federation.machine.borrower import UNHEARD
from holdfast.federation.machine.commands import Halt, Prepare, Resume, Start, Stop
from holdfast.federation.machine.context import Office
from holdfast.federation.machine.costs import Load, Units, total
from holdfast.federation.machine.ledger import Account, Dispute
from holdfast.federation.machine.messages import (
    Alive,
    Beat,
    Cancel,
    Closed,
    Commit,
    Epoch,
    HandBack,
    LoanId,
    Recall,
    Release,
    Renew,
    Renewed,
    Report,
    Ship,
    Shipment,
    Takeover,
)
from holdfast.federation.machine.records import (
    Aborted,
    Asked,
    Counted,
    Disputed,
    Failed,
    Handed,
    Holding,
    Home,
    Loan,
    LoanState,
    Out,
    Restated,
    Served,
    Told,
)
from holdfast.federation.machine.selection import is_worth_keeping_out

DRIFT = 100
"""The share of a time by which clocks of partners may differ is one of so many."""


class Lender:
    def __init__(self, office: Office) -> None:
        self._office = office
        self._shipped: dict[LoanId, int] = {}
        """When a partner was asked to prepare; gone when it is ready."""
        self._halting: set[LoanId] = set()
        self._homing: dict[LoanId, Epoch] = {}
        """What is to be given back: as which epoch it will run here."""
        self._unable: set[LoanId] = set()
        """What is to be given back, and did not start here: it is tried again."""
        self._beaten = 0
        self._served: dict[LoanId, int] = {}
        """Microseconds that partners claim, as far as they can be; receipts follow."""
        self._down: dict[LoanId, tuple[int, int]] = {}
        """How long a task has not run at its partner, less how long it has, and when it was looked
        at: one that runs half of the time or less comes home."""
        self._recalled: set[LoanId] = set()
        self._before = {
            each.id: self._earlier(each)
            for each in office.books.loans
            if each.state is not LoanState.SHIPPING
        }
        """Bounds of the time that each loan had been served when this life began."""

    def excuse(self, gap: int, now: int) -> None:
        """We were not running: nobody had that time."""
        half = now - self._office.rules.prepare // 2
        self._shipped = {
            each: min(now, max(since + gap, half)) for each, since in self._shipped.items()
        }

    def runs(self, loan: LoanId) -> bool:
        """Whether the partner says so."""
        return self._down.get(loan, (0, 0))[0] == 0

    # Going out.

    def ship(self, number: int, partner: str, loans: Sequence[LoanId], now: int) -> None:
        shipments, price = [], 0.0
        for each in loans:
            loan = self._office.books.loan(each)
            assert loan is not None
            shipments.append(Shipment(each.task, loan.epoch))
            price = loan.price
            self._shipped[each] = now
        message = Ship(number, price, tuple(shipments))
        self._office.ask(("ship", number), partner, message, now)

    def ready(self, sender: str, loan: LoanId) -> None:
        found = self._known(sender, loan)
        if found is not None and found.state is LoanState.SHIPPING and loan not in self._halting:
            holding = self._holding(loan)
            if holding.key in self._office.resuming:
                return
            self._halting.add(loan)
            self._arrived(loan)
            self._office.do(Halt(holding.task.id, holding.running))

    def halted(self, holding: Holding, bucket: int, now: int) -> bool:
        """Whether that was for a loan."""
        loan = holding.loan
        if loan is None or loan.id not in self._halting:
            return False
        self._halting.discard(loan.id)
        self._office.write(Handed(loan.id, bucket, now))
        self._commit(loan, now)
        return True

    def _commit(self, loan: Loan, now: int) -> None:
        message = Commit(loan.id, loan.bucket, loan.price, loan.units, loan.duration)
        self._office.ask(("commit", loan.id), loan.partner, message, now)

    def taken(self, sender: str, loan: LoanId, now: int) -> None:
        found = self._known(sender, loan)
        if found is not None and found.state is LoanState.HANDED:
            self._office.answered(("commit", loan))
            self._office.write(Out(loan, now))
            self._down[loan] = (0, now)
            holding = self._holding(loan)
            self._office.do(Stop(holding.task.id, holding.running))

    def refuse(self, sender: str, loan: LoanId, now: int) -> None:
        found = self._known(sender, loan)
        if found is None:
            return
        if found.state is LoanState.SHIPPING:
            self._abort(loan, now)
        elif found.state in (LoanState.HANDED, LoanState.OUT):
            # It was told that it runs there, and it does not.
            self._office.strike(sender, now, loan.task)
            self._fail(found, now)

    def _abort(self, loan: LoanId, now: int) -> None:
        """The partner has accepted it and does not get it to run."""
        holding = self._holding(loan)
        assert holding.loan is not None
        self._office.strike(holding.loan.partner, now, loan.task)
        is_halting = loan in self._halting
        self._office.write(Aborted(loan))
        self.tell(now)
        if is_halting:
            self._office.do(Resume(holding.task.id, holding.running))

    def _arrived(self, loan: LoanId) -> None:
        """Nobody needs to be asked any more to prepare it."""
        self._shipped.pop(loan, None)
        if all(each.number != loan.number for each in self._shipped):
            self._office.answered(("ship", loan.number))

    # Being away.

    def wake(self, now: int) -> None:
        self.tell(now)
        for shipped, since in list(self._shipped.items()):
            if now - since >= self._office.rules.prepare:
                self._abort(shipped, now)
        away = [
            each
            for each in self._office.books.loans
            if each.state in (LoanState.HANDED, LoanState.OUT)
        ]
        for loan in away:
            if self._office.is_silent(loan.partner, now):
                self._office.failed.add(loan.partner)
                self._fail(loan, now)
            elif _is_due(loan, now) and not self._is_settling(loan):
                self._review(loan, now)
        self._beat({each.partner for each in away}, now)

    def _beat(self, partners: set[str], now: int) -> None:
        if partners and now >= self._beaten + self._office.rules.beat:
            self._beaten = now
            for partner in sorted(partners):
                receipts = tuple(
                    (each.id, each.served)
                    for each in self._office.books.loans
                    if each.partner == partner and each.state is LoanState.OUT
                )
                self._office.say(partner, Beat(receipts))

    @property
    def due(self) -> int | None:
        rules = self._office.rules
        times = [since + rules.prepare for since in self._shipped.values()]
        for loan in self._office.books.loans:
            if loan.state in (LoanState.HANDED, LoanState.OUT):
                times.append(self._beaten + rules.beat)
            if (
                loan.state is LoanState.OUT
                and loan.duration is not None
                and not self._is_settling(loan)
            ):
                times.append(loan.since + loan.duration)
        return min(times, default=None)

    def _is_settling(self, loan: Loan) -> bool:
        return loan.id in self._homing or any(
            self._office.is_asking((what, loan.id)) for what in ("renew", "recall")
        )

    def alive(self, sender: str, said: Alive, now: int) -> None:
        """What is on loan takes so much now, the partner says, and whether it runs."""
        reports = {each.loan: each for each in said.reports}
        for loan in self._office.books.loans:
            if loan.partner == sender and loan.state is LoanState.OUT:
                self._hear_of(loan, reports.get(loan.id), now)

    def _hear_of(self, loan: Loan, report: Report | None, now: int) -> None:
        """None: the partner knows nothing of it."""
        self._look_after(loan, report is not None and report.runs, now)
        if report is None or loan.state is not LoanState.OUT:
            return
        holding = self._holding(loan.id)
        if report.load != holding.task.load:
            self._office.write(Restated(holding.key, report.load))
        claimed = self._accept(loan, report.served, now)
        if loan.served == 0 or claimed >= loan.served + self._office.rules.patience:
            self._count(loan)

    def _look_after(self, loan: Loan, runs: bool, now: int) -> None:
        down, since = self._down.get(loan.id, (0, now))
        passed = min(now - since, self._office.rules.patience)
        down = max(0, down - passed if runs else down + passed)
        self._down[loan.id] = (down, now)
        if down >= self._office.rules.prepare:
            self._office.strike(loan.partner, now, loan.id.task)
            self._fail(loan, now)

    def _accept(self, loan: Loan, claim: int, now: int) -> int:
        """The part of a claim that is possible. Nothing was served before the task was handed over;
        of the time before this life the date says how long it was, which may have been set since,
        back or forward. So it counts between two bounds only."""
        passed = max(0, now - loan.handed)
        started = self._office.started
        if loan.id in self._before:
            least, most = self._before[loan.id]
            passed = now - started + max(least, min(started - loan.handed, most))
        claim = min(claim, passed + passed // DRIFT)
        self._served[loan.id] = max(claim, self._served_by(loan))
        return self._served[loan.id]

    def _earlier(self, loan: Loan) -> tuple[int, int]:
        """Bounds of the service of earlier lives: what is written down, and what a partner has
        served beyond that. An honest one ends by itself, some time after what was ordered."""
        duration, patience = loan.duration or 0, self._office.rules.patience
        # The partner may have agreed to the first period, or to another, and not been heard.
        asked = 1 if loan.asked is None else loan.asked[0] + 1
        ordered = max(loan.periods, asked) * duration
        most = max(loan.served, ordered) + UNHEARD * patience
        if self._office.started <= self._office.books.latest:
            # The date was set back: it says nothing.
            return most, most
        return min(loan.served + duration + 2 * patience, most), most

    def _served_by(self, loan: Loan) -> int:
        return max(loan.served, self._served.get(loan.id, 0))

    def _count(self, loan: Loan) -> None:
        """Write down what was served, before it is receipted or the loan is over."""
        served = self._served_by(loan)
        if served > loan.served:
            self._office.write(Counted(loan.id, served))

    def count_all(self) -> None:
        """Loans that are about to be called off cost what was served until now."""
        for loan in self._office.books.loans:
            self._count(loan)

    def _review(self, loan: Loan, now: int) -> None:
        """A period is over: have the task back, or pay for another."""
        holding = self._holding(loan.id)
        everything = self._office.staying + self.coming()
        contract = self._office.contracts.to(loan.partner)
        units = Units() if contract is None else contract.units
        keeps = contract is not None and is_worth_keeping_out(
            self._office.cost, everything, holding.task.load, loan.price, units
        )
        if keeps and holding.key not in self._office.wanted:
            # Nobody is made to pay more by a partner that overstates what a task takes.
            amount = min(loan.units, units.of(holding.task.load))
            self._office.write(Asked(loan.id, loan.periods, amount))
            self._renew(loan, now)
        else:
            self._recalled.add(loan.id)
            self._office.ask(("recall", loan.id), loan.partner, Recall(loan.id), now)

    def _renew(self, loan: Loan, now: int) -> None:
        assert loan.asked is not None
        self._office.ask(("renew", loan.id), loan.partner, Renew(loan.id, *loan.asked), now)

    def coming(self) -> Load:
        """All that is on its way home to stay: what its own lender wants back goes on."""
        coming = [
            self._holding(each.id) for each in self._office.books.loans if self._comes_home(each)
        ]
        return total(each.task.load for each in coming if each.key not in self._office.wanted)

    def _comes_home(self, loan: Loan) -> bool:
        return (
            loan.state is LoanState.FENCING
            or loan.id in self._homing
            or self._office.is_asking(("recall", loan.id))
        )

    def renewed(self, sender: str, said: Renewed, now: int) -> None:
        loan = self._known(sender, said.loan)
        if loan is None or loan.state is not LoanState.OUT:
            # One that has failed is settled: no further period is paid.
            return
        if loan.asked == (said.period, said.units):
            self._office.answered(("renew", loan.id))
            if said.period == loan.periods:
                self._office.write(Served(loan.id, said.period, said.units, now))
                if self.runs(loan.id):
                    self._office.clear(sender, loan.id.task)

    # Coming home.

    def give_back(self, sender: str, loan: LoanId, now: int) -> None:
        self.taken(sender, loan, now)
        found = self._known(sender, loan)
        if found is None or found.state is not LoanState.OUT:
            return
        self._office.answered(("renew", loan))
        self._office.answered(("recall", loan))
        is_first = loan not in self._homing
        if is_first:
            self._judge(found, now)
        if is_first or loan in self._unable:
            self._unable.discard(loan)
            holding = self._holding(loan)
            self._homing[loan] = holding.next_epoch
            self._office.do(Prepare(holding.task.id, holding.next_epoch, sender))

    def unable(self, holding: Holding, epoch: Epoch) -> None:
        """It could not be prepared here; the partner says again that it gives it back."""
        loan = holding.loan
        if loan is not None and self._homing.get(loan.id) == epoch:
            self._unable.add(loan.id)

    def prepared(self, holding: Holding, epoch: Epoch, now: int) -> None:
        loan = holding.loan
        if loan is not None and self._homing.get(loan.id) == epoch:
            self._office.ask(("takeover", loan.id), loan.partner, Takeover(loan.id), now)

    def hand_back(self, sender: str, said: HandBack, now: int) -> None:
        self.taken(sender, said.loan, now)
        loan = self._known(sender, said.loan)
        if loan is None:
            if said.loan not in self._office.books.untold:
                self._close(sender, said.loan)
            return
        if loan.state is not LoanState.OUT:
            return
        if loan.id not in self._homing:
            self._judge(loan, now)
        if loan.asked is not None and loan.asked[0] == loan.periods < said.periods:
            self._office.write(Served(loan.id, *loan.asked, now))
        account = Account(loan.periods, self._accept(loan, said.served, now))
        self._check_claim(loan, Account(loan.periods, said.served), account)
        self._come_home(loan, said.bucket, self._holding(loan.id).next_epoch, account)
        self._close(sender, said.loan)

    def _judge(self, loan: Loan, now: int) -> None:
        """One who does not run it, or gives back what is not asked for before its period is over,
        has not kept it."""
        is_early = loan.id not in self._recalled and not _is_due(loan, now) and loan.periods <= 1
        if is_early or not self.runs(loan.id):
            self._office.strike(loan.partner, now, loan.id.task)
        else:
            self._office.clear(loan.partner, loan.id.task)

    def _check_claim(self, loan: Loan, claim: Account, account: Account) -> None:
        """A claim to more than can have been served is not paid, and not forgotten."""
        ledger = self._office.books.ledger
        mine, theirs = ledger.value(loan.id, account), ledger.value(loan.id, claim)
        if theirs > mine:
            self._office.write(Disputed(Dispute(loan.id, loan.partner, mine, theirs)))

    def _close(self, sender: str, loan: LoanId) -> None:
        ledger = self._office.books.ledger
        account = Account(0, 0)
        if all(each.seller == sender for each in ledger.of(loan)):
            account = ledger.settled.get(loan, account)
        self._office.say(sender, Closed(loan, account.periods, account.served))

    def _come_home(
        self, loan: Loan, bucket: int, epoch: Epoch, account: Account | None = None
    ) -> None:
        holding = self._holding(loan.id)
        self._forget(loan.id)
        self._office.write(Home(loan.id, epoch, account))
        self._office.do(Start(holding.task.id, epoch, bucket))

    def _fail(self, loan: Loan, now: int) -> None:
        """The partner is gone, or as good as: nobody will read what it still makes."""
        epoch = self._holding(loan.id).next_epoch
        account = Account(loan.periods, self._served_by(loan))
        self._forget(loan.id)
        self._office.write(Failed(loan.id, epoch, account))
        self._office.fence(loan.id.task, epoch, now)
        self.tell(now)

    def fenced(self, holding: Holding, epoch: Epoch, bucket: int) -> None:
        loan = holding.loan
        if loan is not None and loan.state is LoanState.FENCING and loan.home == epoch:
            self._come_home(loan, bucket, epoch)

    def _forget(self, loan: LoanId) -> None:
        self._homing.pop(loan, None)
        self._served.pop(loan, None)
        self._down.pop(loan, None)
        self._recalled.discard(loan)
        self._unable.discard(loan)
        self._halting.discard(loan)
        self._arrived(loan)
        for what in ("commit", "renew", "recall", "takeover"):
            self._office.answered((what, loan))

    def cancelled(self, sender: str, loan: LoanId, claimed: float) -> None:
        """The partner knows, and says what it is owed."""
        told = self._office.books.untold.get(loan)
        if told is not None and told[0] == sender:
            self._office.answered(("tell", loan))
            mine = math.fsum(each.amount for each in self._office.books.ledger.of(loan))
            if not math.isclose(mine, claimed, rel_tol=1e-9, abs_tol=1e-12):
                self._office.write(Disputed(Dispute(loan, sender, mine, claimed)))
            self._office.write(Told(loan))

    def tell(self, now: int) -> None:
        """Whoever still thinks that something is his is told that it is not."""
        for loan, (partner, account) in self._office.books.untold.items():
            if not self._office.is_asking(("tell", loan)):
                self._forget(loan)
                message = (
                    Cancel(loan, account.periods, account.served)
                    if loan.task
                    else Release(loan.number)
                )
                self._office.ask(("tell", loan), partner, message, now)

    # After a crash.

    def recover(self, now: int) -> None:
        shipping: dict[int, list[LoanId]] = {}
        for loan in self._office.books.loans:
            if loan.state is LoanState.SHIPPING:
                shipping.setdefault(loan.id.number, []).append(loan.id)
            elif loan.state is LoanState.HANDED:
                self._commit(loan, now)
            elif loan.state is LoanState.FENCING:
                self._office.fence(loan.id.task, loan.home, now)
            elif loan.asked is not None and loan.asked[0] == loan.periods:
                self._renew(loan, now)
        for number, loans in shipping.items():
            found = self._office.books.loan(loans[0])
            assert found is not None
            self.ship(number, found.partner, loans, now)
        self.tell(now)

    def _holding(self, loan: LoanId) -> Holding:
        return self._office.books.holdings[self._office.books.lent[loan]]

    def _known(self, sender: str, loan: LoanId) -> Loan | None:
        """A loan to the sender. One who speaks of a loan that is over is told so."""
        found = self._office.books.loan(loan)
        if found is not None and found.partner == sender:
            return found
        told = self._office.books.untold.get(loan)
        if told is not None and told[0] == sender:
            self._office.say(sender, Cancel(loan, told[1].periods, told[1].served))
        return None


def _is_due(loan: Loan, now: int) -> bool:
    return (
        loan.state is LoanState.OUT
        and loan.duration is not None
        and now >= loan.since + loan.duration
    )
