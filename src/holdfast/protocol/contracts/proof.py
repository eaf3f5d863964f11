"""Third-party verification of a ledger: every entry held against the letters that both have signed.

Neither side is trusted. A buyer owes what it has ordered and acknowledged, or settled; a seller has
begun, agreed and ended what it has signed. Signatures are checked by whoever opens the letters.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.protocol.contracts.ledger import Account, Entry, Ledger, reckon
from holdfast.protocol.contracts.letters import NONE, Letter, Mark
from holdfast.protocol.contracts.messages import (
    Beat,
    Cancel,
    Cancelled,
    Closed,
    Commit,
    GiveBack,
    HandBack,
    Renew,
    Renewed,
    Taken,
)
from holdfast.protocol.contracts.tasks import LoanId

__all__ = ["Proof", "Signed", "prove"]


@dataclass(frozen=True, slots=True)
class Signed:
    """A letter whose signature was found right."""

    sender: str
    receiver: str
    letter: Letter


@dataclass(frozen=True, slots=True)
class Proof:
    """`problems`: entries that the letters do not bear out, and contradictions in the letters."""

    problems: tuple[str, ...]
    missing: tuple[str, ...]
    """Letters that others name and that are not here."""
    proven: int
    """Entries that are borne out."""
    disputed: tuple[str, ...]
    """Loans that the two have ended differently, and what is proven of them."""


@dataclass(slots=True)
class _Case:
    """All that was signed about one loan, by its buyer and its seller."""

    commit: Commit | None = None
    taken: str = ""
    ordered: dict[int, float] = field(default_factory=dict)
    agreed: dict[int, float] = field(default_factory=dict)
    receipted: int | None = None
    paid: Account | None = None
    claimed: Account | None = None


def prove(ledger: Ledger, letters: Iterable[Signed]) -> Proof:
    found = list(letters)
    problems, missing = _chains(found)
    cases = _cases(found)
    proven, disputed = 0, []
    for loan in sorted({each.loan for each in ledger}):
        entries = sorted(ledger.of(loan), key=lambda each: each.period)
        wrong, dispute = _judge(ledger.me, loan, entries, cases[loan, entries[0].seller])
        if wrong:
            problems.append(wrong)
        elif dispute:
            disputed.append(dispute)
        else:
            proven += len(entries)
    for (loan, seller), case in cases.items():
        if ledger.me in (loan.lender, seller) and not ledger.of(loan):
            owed = _sum(_owed(loan, seller, case)) if case.taken else 0.0
            if owed > 0:
                problems.append(f"{_place(loan)}: {owed:g} is proven, and not in the ledger")
    return Proof(tuple(problems), tuple(missing), proven, tuple(disputed))


def _chains(letters: Sequence[Signed]) -> tuple[list[str], list[str]]:
    """Two letters at one place of a chain, and places that are named and empty."""
    problems, missing = [], []
    chains: dict[tuple[str, str], dict[Mark, Letter]] = defaultdict(dict)
    for each in letters:
        bound = each.letter.bound
        if bound.mark == NONE:
            continue
        chain = chains[each.sender, each.receiver]
        known = chain.setdefault(bound.mark, each.letter)
        if (known.message, known.bound) != (each.letter.message, bound):
            problems.append(
                f"{each.sender} has signed two letters as {_name(bound.mark)} to {each.receiver}"
            )
    for (sender, receiver), chain in chains.items():
        for mark in sorted(chain):
            before = chain[mark].bound.before
            if before != NONE and before not in chain:
                missing.append(f"{_name(before)} of {sender} to {receiver}")
    return problems, missing


def _name(mark: Mark) -> str:
    return f"letter {mark[1]} of life {mark[0]}"


def _cases(letters: Sequence[Signed]) -> dict[tuple[LoanId, str], _Case]:
    """By loan and seller. What one has no right to say of a loan says nothing."""
    cases: dict[tuple[LoanId, str], _Case] = defaultdict(_Case)
    for each in sorted(letters, key=lambda each: each.letter.mark):
        message = each.letter.message
        if isinstance(message, Beat):
            for loan, served in message.receipts:
                if loan.lender == each.sender:
                    case = cases[loan, each.receiver]
                    case.receipted = max(case.receipted or 0, served)
            continue
        named = getattr(message, "loan", None)
        if isinstance(named, LoanId) and each.sender == named.lender:
            _hear_buyer(cases[named, each.receiver], message)
        elif isinstance(named, LoanId) and each.receiver == named.lender:
            _hear_seller(cases[named, each.sender], each.sender, message)
    return cases


def _hear_buyer(case: _Case, message: object) -> None:
    match message:
        case Commit():
            case.commit = case.commit or message
        case Renew(_, period, units):
            case.ordered.setdefault(period, units)
        case Closed() | Cancel():
            case.paid = case.paid or Account(message.periods, message.served)


def _hear_seller(case: _Case, seller: str, message: object) -> None:
    match message:
        case Taken() | GiveBack():
            case.taken = seller
        case Renewed(_, period, units):
            case.taken = seller
            case.agreed.setdefault(period, units)
        case HandBack() | Cancelled():
            case.taken = seller
            case.claimed = Account(message.periods, message.served)


def _judge(
    me: str, loan: LoanId, entries: Sequence[Entry], case: _Case
) -> tuple[str | None, str | None]:
    """A problem, or a dispute; neither: all of it is borne out."""
    place, seller = _place(loan), entries[0].seller
    commit = case.commit
    if commit is None:
        return f"{place}: {loan.lender} has signed no order", None
    if not case.taken:
        return f"{place}: {seller} has not signed that it began", None
    base = _base(loan, seller, case)
    units = _agreed(case, len(base))
    if units is not None:
        return f"{place}: period {len(base)} was never ordered at {units:g} units", None
    said = math.fsum(each.amount for each in entries)
    if case.paid is None:
        if list(entries) != base:
            return f"{place}: {said:g} is in the ledger, {_sum(base):g} was ordered", None
        return None, None
    right = reckon(base, case.paid)
    if list(entries) == right:
        return None, None
    owed = max(_sum(right), _sum(_receipted(base, case.receipted)))
    claimed = [] if case.claimed is None else reckon(base, case.claimed)
    if loan.lender != me and list(entries) == claimed:
        return None, f"{place}: {said:g} is claimed, {owed:g} of it is proven"
    return f"{place}: {said:g} is in the ledger, {owed:g} is proven", None


def _place(loan: LoanId) -> str:
    return f"{loan.task}, offer {loan.number} of {loan.lender}"


def _base(loan: LoanId, seller: str, case: _Case) -> list[Entry]:
    """The periods that one has ordered and the other has agreed to."""
    commit = case.commit
    if commit is None:
        return []
    base = [Entry(loan, 0, seller, commit.price, commit.units, commit.duration)]
    while (units := _agreed(case, len(base))) is not None and (
        case.ordered.get(len(base)) == units
    ):
        base.append(Entry(loan, len(base), seller, commit.price, units, commit.duration))
    return base


def _owed(loan: LoanId, seller: str, case: _Case) -> list[Entry]:
    base = _base(loan, seller, case)
    return base if case.paid is None else reckon(base, case.paid)


def _agreed(case: _Case, period: int) -> float | None:
    """The units of a period that the seller has signed: by itself, or at the end."""
    units = case.agreed.get(period)
    if units is None and case.claimed is not None and period < case.claimed.periods:
        return case.ordered.get(period)
    return units


def _receipted(base: Sequence[Entry], served: int | None) -> list[Entry]:
    return [] if served is None else reckon(base, Account(len(base), served))


def _sum(entries: Iterable[Entry]) -> float:
    return math.fsum(each.amount for each in entries)
