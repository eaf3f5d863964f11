"""Ledger: an entry for each period of each loan, on both sides alike.

While a loan goes on, each period that was agreed counts in full. When it is over, it is settled by
the time that was served: part of a period costs that part, and time beyond the last period is paid
at its price. Both sides settle by the same two numbers, in whole microseconds, so their entries are
equal to the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from holdfast.federation.machine.messages import LoanId


@dataclass(frozen=True, slots=True)
class Entry:
    """Payment of the buyer to the seller for one period: price · units, or a part of it."""

    loan: LoanId
    period: int
    seller: str
    price: float
    units: float
    duration: int | None = None
    """Of the period, in microseconds; None: it has no end and is paid once."""
    served: int | None = None
    """Microseconds of it that are paid; None: all."""

    @property
    def buyer(self) -> str:
        return self.loan.lender

    @property
    def amount(self) -> float:
        whole = self.price * self.units
        if self.served is None or self.duration is None:
            return whole
        return whole * (self.served / self.duration)


@dataclass(frozen=True, slots=True)
class Account:
    """The end of a loan: periods that were agreed, and microseconds that were served in all."""

    periods: int
    served: int


@dataclass(frozen=True, slots=True)
class Dispute:
    """An end of a loan on which the two do not agree: the ledger of each keeps its own amount."""

    loan: LoanId
    partner: str
    mine: float
    theirs: float

    def __str__(self) -> str:
        place = f"{self.loan.task}, offer {self.loan.number} of {self.loan.lender}"
        return f"{place}: {self.mine:g} here, {self.theirs:g} by {self.partner}"


@dataclass(frozen=True, slots=True)
class Difference:
    """A period of which two ledgers do not say the same."""

    loan: LoanId
    period: int
    mine: Entry | None
    theirs: Entry | None

    def __str__(self) -> str:
        said = ["nothing" if e is None else f"{e.amount:g}" for e in (self.mine, self.theirs)]
        place = f"{self.loan.task}, offer {self.loan.number} of {self.loan.lender}"
        return f"{place}, period {self.period}: {said[0]} here, {said[1]} there"


def reckon(entries: Iterable[Entry], account: Account) -> list[Entry]:
    """The entries of a loan that is over by this account."""
    agreed = sorted(
        (each for each in entries if each.period < account.periods), key=lambda each: each.period
    )
    if not agreed or agreed[0].duration is None:
        return agreed
    found = []
    left = account.served
    duration = agreed[0].duration
    for each in agreed:
        part = min(left, duration)
        left -= part
        if part > 0:
            found.append(replace(each, served=None if part == duration else part))
    if left > 0:
        found.append(replace(agreed[-1], period=agreed[-1].period + 1, served=left))
    return found


class Ledger:
    """The entries of one participant, by loan."""

    def __init__(
        self,
        me: str,
        entries: Iterable[Entry] = (),
        settled: Mapping[LoanId, Account] | None = None,
        disputes: Iterable[Dispute] = (),
    ) -> None:
        self.me = me
        self._entries: dict[LoanId, dict[int, Entry]] = {}
        self.settled = dict(settled or {})
        """Loans that are over."""
        self.disputes = {each.loan: each for each in disputes}
        for each in entries:
            self.write(each)

    def __iter__(self) -> Iterator[Entry]:
        for found in self._entries.values():
            yield from found.values()

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def write(self, entry: Entry) -> None:
        """Once; what stands stays."""
        self._entries.setdefault(entry.loan, {}).setdefault(entry.period, entry)

    def settle(self, loan: LoanId, account: Account) -> None:
        """The loan is over; what was served is paid."""
        if loan in self._entries:
            self._entries[loan] = {e.period: e for e in reckon(self.of(loan), account)}
            self.settled[loan] = account

    def value(self, loan: LoanId, account: Account) -> float:
        """What a loan costs if it ends like this."""
        return math.fsum(each.amount for each in reckon(self.of(loan), account))

    def dispute(self, dispute: Dispute) -> None:
        self.disputes[dispute.loan] = dispute

    def of(self, loan: LoanId) -> list[Entry]:
        return list(self._entries.get(loan, {}).values())

    def entry(self, loan: LoanId, period: int) -> Entry | None:
        return self._entries.get(loan, {}).get(period)

    def with_partner(self, partner: str) -> list[Entry]:
        return [each for each in self if partner in (each.buyer, each.seller)]

    def balance(self, partner: str | None = None) -> float:
        """What has come in less what has gone out, with one partner or with all."""
        entries = self if partner is None else self.with_partner(partner)
        return math.fsum(
            each.amount if each.seller == self.me else -each.amount for each in entries
        )

    @property
    def partners(self) -> list[str]:
        return sorted({each.seller if each.buyer == self.me else each.buyer for each in self})


def reconcile(mine: Ledger, theirs: Ledger) -> list[Difference]:
    """Where the books of two partners differ on what is between them; none: they agree."""
    here = {(each.loan, each.period): each for each in mine.with_partner(theirs.me)}
    there = {(each.loan, each.period): each for each in theirs.with_partner(mine.me)}
    return [
        Difference(*key, here.get(key), there.get(key))
        for key in sorted(here.keys() | there.keys())
        if here.get(key) != there.get(key)
    ]
