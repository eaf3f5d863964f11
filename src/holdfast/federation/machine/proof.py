"""Third-party verification of a ledger by the letters that both sides signed.

Neither side is trusted. A buyer owes what it has ordered and acknowledged, or settled; a seller has
begun, agreed and ended what it has signed. Signatures are checked by whoever opens the letters.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.federation.machine.ledger import Account, Entry, Ledger, reckon
from holdfast.federation.machine.messages import (
    NONE,
    Beat,
    Cancel,
    Cancelled,
    Closed,
    Commit,
    GiveBack,
    HandBack,
    Letter,
    LoanId,
    Mark,
    Renew,
    Renewed,
    Taken,
)

TINY = 1e-9
"""Relative differences of sums that are none."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A letter whose signature was found right."""

    sender: str
    receiver: str
    letter: Letter


@dataclass(frozen=True, slots=True)
class Proof:
    """`problems`: entries that the letters do not bear out, entries that are left out, and
    contradictions in the letters of whoever keeps the ledger."""

    problems: tuple[str, ...]
    missing: tuple[str, ...]
    """Letters that others name and that are not here."""
    proven: int
    """Entries that are borne out."""
    disputed: tuple[str, ...]
    """Loans that the two have ended differently, and what is proven of them."""
    doubled: tuple[str, ...] = ()
    """Contradictions in the letters of others: no fault of this ledger."""


@dataclass(slots=True)
class _Case:
    """All that was signed about one loan, by its buyer and its seller. Each may have signed one
    thing and then another; what counts is what both have signed."""

    commits: list[Commit] = field(default_factory=list)
    is_taken: bool = False
    ordered: dict[int, set[float]] = field(default_factory=lambda: defaultdict(set))
    agreed: dict[int, set[float]] = field(default_factory=lambda: defaultdict(set))
    receipted: int | None = None
    paid: list[Account] = field(default_factory=list)
    claimed: list[Account] = field(default_factory=list)


def prove(ledger: Ledger, letters: Iterable[Signed]) -> Proof:
    letters = list(letters)
    doubled, missing = _chains(letters)
    problems = [said for sender, said in doubled if sender == ledger.me]
    cases = _cases(letters)
    entries: dict[tuple[LoanId, str], list[Entry]] = defaultdict(list)
    for each in sorted(ledger, key=lambda each: each.period):
        entries[each.loan, each.seller].append(each)
    named = {key for key in cases if ledger.me in (key[0].lender, key[1])}
    proven, disputed = 0, []
    for loan, seller in sorted(named | entries.keys()):
        found, case = entries[loan, seller], cases[loan, seller]
        if loan.lender == ledger.me:
            verdict = _judge_bought(loan, seller, found, case)
        else:
            verdict = _judge_sold(loan, seller, found, case, loan in ledger.settled)
        if verdict is None:
            proven += len(found)
        elif verdict.is_dispute:
            disputed.append(str(verdict))
        else:
            problems.append(str(verdict))
    others = tuple(said for sender, said in doubled if sender != ledger.me)
    return Proof(tuple(problems), tuple(missing), proven, tuple(disputed), others)


def _chains(letters: Sequence[Signed]) -> tuple[list[tuple[str, str]], list[str]]:
    """Two letters at one place of a chain, with who has signed them, and places that are named and
    empty."""
    doubled, missing = [], []
    chains: dict[tuple[str, str], dict[Mark, Letter]] = defaultdict(dict)
    for each in letters:
        bound = each.letter.bound
        if bound.mark == NONE:
            continue
        chain = chains[each.sender, each.receiver]
        known = chain.setdefault(bound.mark, each.letter)
        if (known.message, known.bound) != (each.letter.message, bound):
            said = f"{each.sender} has signed two letters as {_name(bound.mark)} to {each.receiver}"
            doubled.append((each.sender, said))
    for (sender, receiver), chain in chains.items():
        for mark in sorted(chain):
            before = chain[mark].bound.before
            if before != NONE and before not in chain:
                missing.append(f"{_name(before)} of {sender} to {receiver}")
    return list(dict.fromkeys(doubled)), missing


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
            _hear_seller(cases[named, each.sender], message)
    return cases


def _hear_buyer(case: _Case, message: object) -> None:
    match message:
        case Commit(_, _, price, units, duration):
            if min(price, units) >= 0 and (duration is None or duration > 0):
                case.commits.append(message)
        case Renew(_, period, units):
            case.ordered[period].add(units)
        case Closed() | Cancel():
            case.paid.append(Account(message.periods, message.served))


def _hear_seller(case: _Case, message: object) -> None:
    match message:
        case Taken() | GiveBack():
            case.is_taken = True
        case Renewed(_, period, units):
            case.is_taken = True
            case.agreed[period].add(units)
        case HandBack():
            case.is_taken = True
            case.claimed.append(Account(message.periods, message.served))
        case Cancelled() if message.periods > 0:
            # Else it may be the answer to one who speaks of a loan that there never was.
            case.is_taken = True
            case.claimed.append(Account(message.periods, message.served))


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What is wrong with the entries of a loan; None in its place: all of it is borne out."""

    loan: LoanId
    said: str
    is_dispute: bool = False

    def __str__(self) -> str:
        return f"{self.loan.task}, offer {self.loan.number} of {self.loan.lender}: {self.said}"


def _judge_bought(
    loan: LoanId, seller: str, entries: Sequence[Entry], case: _Case
) -> _Verdict | None:
    """The ledger of the buyer: it owes the most of what it has signed, if it was served at all."""
    bases = _bases(loan, seller, case)
    if not bases:
        return _unfounded(loan, seller, entries, case)
    ends = [
        [base] if not case.paid else [reckon(base, each) for each in case.paid] for base in bases
    ]
    signed = [each for found in ends for each in found]
    owed = max(map(_sum, [*signed, *(_receipted(base, case.receipted) for base in bases)]))
    if list(entries) in signed and _sum(entries) >= owed * (1 - TINY):
        return None
    return _differs(loan, entries, owed)


def _judge_sold(
    loan: LoanId, seller: str, entries: Sequence[Entry], case: _Case, is_settled: bool
) -> _Verdict | None:
    """The ledger of the seller: it has coming what the buyer has signed, and may claim what it
    served."""
    bases = _bases(loan, seller, case)
    if not bases:
        return _unfounded(loan, seller, entries, case)
    paid = [reckon(base, each) for base in bases for each in case.paid] if case.paid else bases
    if list(entries) in paid:
        return None
    owed = max(map(_sum, [*paid, *(_receipted(base, case.receipted) for base in bases)]))
    claimed = [reckon(base, each) for base in bases for each in case.claimed]
    if list(entries) in bases and not is_settled and _sum(entries) <= owed:
        return None  # It goes on, whatever the buyer has promised beside.
    is_claim = _sum(entries) > owed or not is_settled
    if list(entries) in claimed or (is_claim and list(entries) in bases):
        said = f"{_sum(entries):g} is claimed, {owed:g} of it is proven"
        return _Verdict(loan, said, is_dispute=True)
    return _differs(loan, entries, owed)


def _differs(loan: LoanId, entries: Sequence[Entry], owed: float) -> _Verdict:
    if not entries:
        return _Verdict(loan, f"{owed:g} is proven, and not in the ledger")
    return _Verdict(loan, f"{_sum(entries):g} is in the ledger, {owed:g} is proven")


def _unfounded(loan: LoanId, seller: str, entries: Sequence[Entry], case: _Case) -> _Verdict | None:
    if not entries:
        return None
    if not case.commits:
        return _Verdict(loan, f"{loan.lender} has signed no order")
    return _Verdict(loan, f"{seller} has not signed that it began")


def _bases(loan: LoanId, seller: str, case: _Case) -> list[list[Entry]]:
    """The periods that one has ordered and the other has agreed to, for each order of the first;
    nothing, if it never began."""
    if not case.is_taken:
        return []
    orders = dict.fromkeys((each.price, each.units, each.duration) for each in case.commits)
    found = []
    for price, units, duration in orders:
        base = [Entry(loan, 0, seller, price, units, duration)]
        while both := _agreed(case, len(base)):
            base.append(Entry(loan, len(base), seller, price, min(both), duration))
        found.append(base)
    return found


def _agreed(case: _Case, period: int) -> set[float]:
    """The units of a period that the buyer has ordered and the seller has agreed to: by itself, or
    at the end."""
    ordered = case.ordered.get(period, set())
    both = ordered & case.agreed.get(period, set())
    if both or all(each.periods <= period for each in case.claimed):
        return both
    return ordered


def _receipted(base: Sequence[Entry], served: int | None) -> list[Entry]:
    return [] if served is None else reckon(base, Account(len(base), served))


def _sum(entries: Iterable[Entry]) -> float:
    return math.fsum(each.amount for each in entries)
