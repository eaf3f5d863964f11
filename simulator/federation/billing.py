"""Money of the honest, held against what the simulator has seen: who ran what, and for how long."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from holdfast.federation.machine import Entry, Epoch, Ledger, LoanId, Rules
from holdfast.federation.machine.borrower import UNHEARD, UNWRITTEN
from holdfast.federation.machine.records import Borrowed
from simulator.federation.scenario import BUCKET

SLACK = 3_000_000
"""Microseconds of a loan in which nothing is counted: it begins, it ends, beats lag behind."""


@dataclass(slots=True)
class Bills:
    """Loans as they really went. Times are those of the simulator."""

    borrowed: dict[tuple[str, LoanId], Borrowed] = field(default_factory=dict)
    """By seller and loan."""
    buckets: dict[tuple[str, str, Epoch], int] = field(default_factory=lambda: defaultdict(int))
    """How many buckets a participant has computed of a task, as which epoch."""
    ran: dict[tuple[str, str, Epoch], int] = field(default_factory=lambda: defaultdict(int))
    """For how many buckets of time it ran there: who is down does not serve, and what is caught up
    with afterwards is not paid once more."""
    handed: dict[LoanId, tuple[str, str, int]] = field(default_factory=dict)
    """Who handed over which task, and when."""
    ended: dict[LoanId, int] = field(default_factory=dict)
    restarts: dict[str, list[tuple[int, bool]]] = field(default_factory=lambda: defaultdict(list))
    """Restarts of a participant, with whether its date was set meanwhile."""

    def seller_losses(
        self, ledger: Ledger, rules: Rules, acknowledging: Collection[str]
    ) -> Iterator[str]:
        """Nobody serves for nothing for longer than what was ordered, and a few patiences; nor for
        those that are `acknowledging`, on a network that is well, for what they acknowledge. Who is
        started anew has forgotten what was not written down, each time."""
        forgotten = len(self.restarts[ledger.me]) * (UNWRITTEN * rules.patience + BUCKET)
        for (seller, loan), lent in self.borrowed.items():
            if seller != ledger.me or lent.duration is None:
                continue
            run = (seller, lent.task.id, lent.epoch)
            served = min(self.buckets[run], self.ran[run]) * BUCKET
            free = lent.duration + 7 * rules.patience + SLACK + forgotten
            if loan.lender in acknowledging:
                free = 3 * rules.patience + SLACK
            rate = lent.price * lent.units / lent.duration
            paid = _paid(ledger, loan)
            if paid < rate * (1 - rules.tolerance) * (served - free):
                yield f"{seller} is paid {paid} for {served} µs of {loan}, {rate * served} is right"

    def buyer_losses(self, ledger: Ledger, rules: Rules, now: int) -> Iterator[str]:
        """Nobody pays for more than the time for which a task was away, and a period ahead; nor
        for one time twice, unless it came back by another way meanwhile: then it is paid for that.
        Who is started anew cannot know what it has not written down, each time."""
        sold: dict[str, int] = defaultdict(int)
        for entry in ledger:
            if entry.seller == ledger.me:
                sold[entry.loan.task] += self._sold(entry, now)
        spans: dict[str, int] = defaultdict(int)
        for loan, (buyer, task, at) in self.handed.items():
            entries = ledger.of(loan)
            if buyer != ledger.me or not entries or entries[0].duration is None:
                continue
            span = sum(map(_span, entries))
            away = self.ended.get(loan, now) - at
            ahead = 0 if loan in ledger.settled else entries[0].duration
            ahead += self._unknown(ledger.me, entries[0].duration, rules, at, at + away)
            spans[task] += span - ahead
            if span > away + away // 50 + ahead:
                yield f"{buyer} pays {span} µs of {loan}, which was away for {away}"
        for task, span in spans.items():
            if span > now + now // 50 + sold[task]:
                yield f"{ledger.me} pays {span} µs of {task} within {now}: some of it twice"

    def _unknown(self, name: str, duration: int, rules: Rules, begin: int, end: int) -> int:
        """Microseconds of a loan that one cannot know who was down in it. If its date was set, it
        may have been down for long: the partner may have served until it gave up."""
        found, patience = 0, 2
        for at, is_set in self.restarts[name]:
            if begin < at <= end:
                patience = UNHEARD if is_set else patience
                found += duration + patience * rules.patience
        return found

    def _sold(self, entry: Entry, now: int) -> int:
        """The time for which somebody runs a task for an entry. One that has no end is paid once,
        for as long as the task is there."""
        if entry.duration is not None or entry.loan not in self.handed:
            return _span(entry)
        return self.ended.get(entry.loan, now) - self.handed[entry.loan][2]


def _span(entry: Entry) -> int:
    return entry.served if entry.served is not None else entry.duration or 0


def _paid(ledger: Ledger, loan: LoanId) -> float:
    return math.fsum(each.amount for each in ledger.of(loan))
