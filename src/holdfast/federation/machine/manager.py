"""Load manager of a participant: all of the mechanism, as a state machine.

Events go in with the time, commands come out, to be done in their order. It is told what its own
tasks take and what its partners say, and nothing else: no load, no cost and no contract of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.errors import InvalidArgumentError
from holdfast.federation.machine.borrower import Borrower
from holdfast.federation.machine.buyer import Buyer
from holdfast.federation.machine.commands import Command, Resume, Rules, Start, Stop
from holdfast.federation.machine.context import Office
from holdfast.federation.machine.contract import Contracts
from holdfast.federation.machine.costs import Cost, Load
from holdfast.federation.machine.lender import Lender
from holdfast.federation.machine.messages import (
    Alive,
    Answer,
    Beat,
    Cancel,
    Cancelled,
    Closed,
    Commit,
    Epoch,
    Freed,
    GiveBack,
    HandBack,
    Hello,
    Letter,
    LoanId,
    Mark,
    Offer,
    Ready,
    Recall,
    Refuse,
    Release,
    Renew,
    Renewed,
    Ship,
    Taken,
    Takeover,
    Task,
    is_sound,
)
from holdfast.federation.machine.records import (
    Gone,
    Holding,
    LoanState,
    Overruled,
    Owned,
    Record,
    Restated,
    State,
)
from holdfast.federation.machine.seller import Seller
from holdfast.federation.machine.state import Books


class Manager:
    def __init__(
        self,
        me: str,
        cost: Cost,
        contracts: Contracts,
        rules: Rules | None = None,
        *,
        journal: Iterable[Record] = (),
        now: int = 0,
        bound: Mapping[str, Mark] | None = None,
    ) -> None:
        """With a journal it goes on where the one that wrote it was; see `recover`. `bound`: of the
        letters that were kept, the last one of mine to each partner."""
        self.me = me
        self.books = Books(me, journal)
        rules = rules or Rules()
        self._office = Office(self.books, cost, contracts, rules, now, bound or {})
        self._lender = Lender(self._office)
        self._borrower = Borrower(self._office, self._lender.runs, self._lender.coming)
        self._seller = Seller(self._office, self._lender.coming)
        self.buyer = Buyer(self._office, self._lender.ship)
        self.buyer.next_round = now

    @property
    def contracts(self) -> Contracts:
        """May be changed at any time; what is on loan stays until it is due."""
        return self._office.contracts

    @property
    def cost(self) -> Cost:
        return self._office.cost

    @property
    def failed(self) -> frozenset[str]:
        """Partners who do not answer: they are asked last."""
        return frozenset(self._office.failed)

    @property
    def partners(self) -> frozenset[str]:
        """Those with whom something is under way, or not settled."""
        books = self.books
        lenders = (each.key.lender for each in books.holdings.values() if each.key.number)
        promised = (buyer for buyer, _ in books.promises)
        asked = (each.partner for each in books.offers.values())
        untold = (partner for partner, _ in books.untold.values())
        lent = (each.partner for each in books.loans)
        return frozenset([*lenders, *promised, *asked, *untold, *lent])

    def recover(self, now: int) -> list[Command]:
        """To be called first, when there was a journal."""
        for holding in self.books.here:
            # Where it had got to is known to its readers alone.
            self._office.resuming.add(holding.key)
            self._office.fence(holding.task.id, holding.running, now)
        self._lender.recover(now)
        self._borrower.recover(now)
        self.buyer.recover(now)
        return self._office.take_commands()

    @property
    def due(self) -> int | None:
        """When to wake it at the latest."""
        times = [
            self.buyer.due,
            self._seller.due,
            self._lender.due,
            self._borrower.due,
            self._office.due,
        ]
        return min((each for each in times if each is not None), default=None)

    def wake(self, now: int) -> list[Command]:
        self._look(now)
        self._seller.wake(now)
        self._lender.wake(now)
        self._borrower.wake(now)
        self.buyer.wake(now)
        self._lender.tell(now)
        self._office.repeat(now)
        return self._done(now)

    def _look(self, now: int) -> None:
        """If we were not running, what seems missing may be waiting at our door."""
        gap = self._office.look(now)
        self._borrower.count(now, gap)
        if gap:
            self._lender.excuse(gap, now)
            self.buyer.excuse(gap, now)

    def _done(self, now: int) -> list[Command]:
        due = self.due
        self._office.expected = None if due is None else max(now, due)
        return self._office.take_commands()

    # Its own tasks.

    def own(self, task: Task) -> list[Command]:
        """A client has brought a task."""
        key = LoanId(self.me, 0, task.id)
        if key in self.books.holdings:
            raise InvalidArgumentError(f"task {task.id}: there is one of this name; give another")
        self._office.write(Owned(task))
        self._office.do(Start(task.id, self.books.holdings[key].running, 0))
        return self._office.take_commands()

    def end(self, task: str, now: int) -> list[Command]:
        """A client has taken it away, wherever it runs."""
        holding = self.books.holdings.get(LoanId(self.me, 0, task))
        if holding is None:
            raise InvalidArgumentError(f"task {task}: is not one of {self.me}")
        if holding.is_here:
            self._office.do(Stop(task, holding.running))
        self._lender.count_all()
        self._office.write(Gone(task))
        self._lender.wake(now)
        return self._office.take_commands()

    def measure(
        self, loads: Mapping[str, Load], broken: frozenset[str] = frozenset()
    ) -> list[Command]:
        """What the tasks take that run here, and which are to run here and do not."""
        self._office.broken = broken
        for holding in list(self.books.here):
            load = loads.get(holding.task.id)
            if load is not None and load != holding.task.load:
                self._office.write(Restated(holding.key, load))
        return self._office.take_commands()

    # What the shell has done.

    def prepared(self, task: str, epoch: Epoch, now: int) -> list[Command]:
        for holding in self._all_of(task):
            if holding.state is State.PREPARING and holding.running == epoch:
                self._borrower.prepared(holding)
            else:
                self._lender.prepared(holding, epoch, now)
        return self._office.take_commands()

    def unable(self, task: str, epoch: Epoch, now: int) -> list[Command]:
        """A task could not be prepared here."""
        for holding in self._all_of(task):
            if holding.running == epoch:
                self._borrower.unable(holding, now)
            else:
                self._lender.unable(holding, epoch)
        return self._office.take_commands()

    def halted(self, task: str, epoch: Epoch, bucket: int, now: int) -> list[Command]:
        for holding in self._all_of(task):
            if (
                holding.is_here
                and holding.running == epoch
                and not self._lender.halted(holding, bucket, now)
                and not self._borrower.halted(holding, bucket, now)
            ):
                self._office.do(Resume(task, epoch))
        return self._office.take_commands()

    def fenced(self, task: str, epoch: Epoch, bucket: int) -> list[Command]:
        self._office.answered(("fence", task, epoch))
        for holding in self._all_of(task):
            if (
                holding.key in self._office.resuming
                and holding.is_here
                and holding.running == epoch
            ):
                self._office.resuming.discard(holding.key)
                self._office.do(Start(task, epoch, bucket))
            else:
                self._lender.fenced(holding, epoch, bucket)
        return self._office.take_commands()

    def refused(self, task: str, epoch: Epoch, now: int) -> list[Command]:
        """Its readers have heard of a higher epoch: somebody else runs it."""
        self._office.answered(("fence", task, epoch))
        self._lender.count_all()
        for holding in self._all_of(task):
            loan = holding.loan
            is_fencing = loan is not None and loan.state is LoanState.FENCING
            if is_fencing and loan is not None and loan.home == epoch:
                self._office.write(Overruled(holding.key))
            elif holding.is_here and holding.running == epoch:
                self._office.resuming.discard(holding.key)
                self._office.write(Overruled(holding.key))
                self._office.do(Stop(task, epoch))
        self._lender.wake(now)
        return self._office.take_commands()

    def _all_of(self, task: str) -> list[Holding]:
        return [each for each in self.books.holdings.values() if each.task.id == task]

    # What partners say.

    def receive(self, sender: str, letter: Letter, now: int) -> list[Command]:
        """`sender` is who it really is from: the shell has made sure."""
        self._look(now)
        message = letter.message
        if not is_sound(message) or not self._office.take_in(sender, letter, now):
            return self._done(now)
        match message:
            case Hello():
                self._office.say_again(sender)
            case Offer():
                self._seller.offer(sender, message, now)
            case Release(number):
                self._seller.release(sender, number)
            case Answer():
                self.buyer.answer(sender, message, now)
            case Freed(number):
                self._lender.cancelled(sender, LoanId(self.me, number, ""), 0.0)
            case Cancelled():
                self._lender.cancelled(sender, message.loan, message.amount)
            case Beat():
                self._borrower.receipts(sender, message)
                self._office.say(sender, Alive(self._borrower.reports_for(sender)))
            case Alive():
                self._lender.alive(sender, message, now)
            case Ready() | Refuse() | Taken() | Renewed() | GiveBack() | HandBack():
                self._hear_borrower(sender, message, now)
            case _:
                self._hear_lender(sender, message, now)
        self._lender.wake(now)
        return self._done(now)

    def _hear_borrower(
        self,
        sender: str,
        message: Ready | Refuse | Taken | Renewed | GiveBack | HandBack,
        now: int,
    ) -> None:
        match message:
            case Ready(loan):
                self._lender.ready(sender, loan)
            case Refuse(loan):
                self._lender.refuse(sender, loan, now)
            case Taken(loan):
                self._lender.taken(sender, loan, now)
            case Renewed():
                self._lender.renewed(sender, message, now)
            case GiveBack(loan):
                self._lender.give_back(sender, loan, now)
            case HandBack():
                self._lender.hand_back(sender, message, now)

    def _hear_lender(
        self,
        sender: str,
        message: Ship | Commit | Renew | Recall | Takeover | Closed | Cancel,
        now: int,
    ) -> None:
        match message:
            case Ship():
                self._borrower.ship(sender, message, now)
            case Commit():
                self._borrower.commit(sender, message, now)
            case Renew():
                self._borrower.renew(sender, message, now)
            case Recall(loan):
                self._borrower.recall(sender, loan, now)
            case Takeover(loan):
                self._borrower.take_over(sender, loan)
            case Closed():
                self._borrower.closed(sender, message, now)
            case Cancel():
                self._lender.count_all()
                self._borrower.cancel(sender, message, now)
