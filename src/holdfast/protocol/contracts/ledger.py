"""Who owes whom how much: one entry for each period of each loan, on both sides alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.protocol.contracts.tasks import LoanId

__all__ = ["Difference", "Entry", "Ledger", "reconcile"]


@dataclass(frozen=True, slots=True)
class Entry:
    """The buyer pays price · units to the seller, for one period."""

    loan: LoanId
    period: int
    seller: str
    price: float
    units: float

    @property
    def buyer(self) -> str:
        return self.loan.lender

    @property
    def amount(self) -> float:
        return self.price * self.units


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two ledgers do not say the same of a period."""

    loan: LoanId
    period: int
    mine: Entry | None
    theirs: Entry | None

    def __str__(self) -> str:
        said = ["nothing" if e is None else f"{e.amount:g}" for e in (self.mine, self.theirs)]
        place = f"{self.loan.task}, offer {self.loan.number} of {self.loan.lender}"
        return f"{place}, period {self.period}: {said[0]} here, {said[1]} there"


class Ledger:
    """The entries of one participant."""

    def __init__(self, me: str, entries: Iterable[Entry] = ()) -> None:
        self.me = me
        self._entries = {(each.loan, each.period): each for each in entries}

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def write(self, entry: Entry) -> None:
        """Once; what stands stays."""
        self._entries.setdefault((entry.loan, entry.period), entry)

    def void(self, loan: LoanId, paid: int) -> None:
        """Only the first periods are paid."""
        for key in [key for key in self._entries if key[0] == loan and key[1] >= paid]:
            del self._entries[key]

    def periods(self, loan: LoanId) -> int:
        return sum(each == loan for each, _ in self._entries)

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
