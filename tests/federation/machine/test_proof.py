"""Ledgers held against letters: neither side gains by what it signs beside the truth."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.federation.machine import SECOND, Entry, Letter, LoanId, Message
from holdfast.federation.machine.ledger import Account, Ledger
from holdfast.federation.machine.messages import (
    LOOSE,
    NONE,
    Beat,
    Bound,
    Cancel,
    Cancelled,
    Closed,
    Commit,
    HandBack,
    Renew,
    Renewed,
    Taken,
)
from holdfast.federation.machine.proof import Proof, Signed, prove

DURATION = 60 * SECOND
LOAN = LoanId("a", 7, "x")
BUYER = ("a", "b")
SELLER = ("b", "a")
TWO_PERIODS = (
    (BUYER, Commit(LOAN, 3, 4, 1.0, DURATION)),
    (SELLER, Taken(LOAN)),
    (BUYER, Renew(LOAN, 1, 1.0)),
    (SELLER, Renewed(LOAN, 1, 1.0)),
)
ENTRIES = tuple(Entry(LOAN, period, "b", 4, 1.0, DURATION) for period in range(2))
PAID = (
    (SELLER, HandBack(LOAN, 9, 2, 2 * DURATION)),
    (BUYER, Closed(LOAN, 2, 2 * DURATION)),
)

Said = Sequence[tuple[tuple[str, str], Message]]


def proof_of(
    me: str, entries: Sequence[Entry], said: Said, settled: Account | None = None
) -> Proof:
    last = dict.fromkeys((BUYER, SELLER), NONE)
    letters = []
    for number, (pair, message) in enumerate(said, 1):
        bound = Bound()
        if not isinstance(message, LOOSE):
            bound = Bound((1, number), last[pair])
            last[pair] = bound.mark
        letters.append(Signed(*pair, Letter((1, number), (1, 1), bound, message)))
    return prove(Ledger(me, entries, {} if settled is None else {LOAN: settled}), letters)


@pytest.mark.parametrize("me", ["a", "b"])
def test_what_both_have_signed_is_proven(me: str) -> None:
    assert proof_of(me, ENTRIES, TWO_PERIODS).proven == 2
    assert proof_of(me, ENTRIES, TWO_PERIODS + PAID) == Proof((), (), 2, ())


@pytest.mark.parametrize("entries", [(), (Entry(LOAN, 0, "b", 4, 1.0, DURATION, SECOND),)])
@pytest.mark.parametrize("end", [Cancel, Closed])
def test_a_debtor_that_pays_less_than_its_receipts_cannot_prove_its_ledger(entries, end) -> None:
    paid = end(LOAN, 1, SECOND) if entries else end(LOAN, 0, 0)
    said = (
        *TWO_PERIODS,
        (BUYER, Beat(((LOAN, 2 * DURATION),))),
        (BUYER, paid),
        (SELLER, Cancelled(LOAN, 2, 2 * DURATION, 8.0)),
    )
    (problem,) = proof_of("a", entries, said).problems
    assert "8 is proven" in problem
    (dispute,) = proof_of("b", ENTRIES, said, Account(2, 2 * DURATION)).disputed
    assert "8 is claimed, 8 of it is proven" in dispute


@pytest.mark.parametrize(
    "lie",
    [
        Commit(LOAN, 3, 9, 1.0, DURATION),
        Commit(LOAN, 3, 4, 1.0, 0),
        Commit(LOAN, 3, -4, 1.0, DURATION),
        Renew(LOAN, 1, 0.01),
        Renew(LOAN, 2, 1.0),
        Closed(LOAN, 0, 0),
        Cancel(LOAN, 0, 0),
        Commit(LoanId("a", 99, "y"), 3, 4, 1.0, DURATION),
    ],
    ids=str,
)
def test_nothing_that_a_buyer_signs_before_spoils_the_ledger_of_its_seller(lie: Message) -> None:
    answer = (SELLER, Cancelled(LoanId("a", 99, "y"), 0, 0, 0.0))
    said = ((BUYER, lie), answer, *TWO_PERIODS, *PAID)
    found = proof_of("b", ENTRIES, said)
    assert found.problems == found.disputed == ()


@pytest.mark.parametrize(
    "lie",
    [
        Renewed(LOAN, 1, 9.0),
        Renewed(LOAN, 2, 9.0),
        HandBack(LOAN, 9, 50, 10**15),
        Cancelled(LOAN, 50, 10**15, 1e15),
        Taken(LoanId("a", 99, "y")),
    ],
    ids=str,
)
def test_nothing_that_a_seller_signs_spoils_the_ledger_of_its_buyer(lie: Message) -> None:
    for said in (((SELLER, lie), *TWO_PERIODS, *PAID), (*TWO_PERIODS, *PAID, (SELLER, lie))):
        found = proof_of("a", ENTRIES, said)
        assert found.problems == found.disputed == ()
        assert found.proven == 2


def test_two_letters_at_one_place_are_held_against_whoever_has_signed_them() -> None:
    place = Bound((1, 5), NONE)
    letters = [
        Signed(*BUYER, Letter((1, 5), (1, 1), place, Closed(LOAN, 2, 2 * DURATION))),
        Signed(*BUYER, Letter((1, 6), (1, 1), place, Closed(LOAN, 0, 0))),
    ]
    said = "a has signed two letters as letter 5 of life 1 to b"
    assert prove(Ledger("a"), letters).problems == (said,)
    found = prove(Ledger("b"), letters)
    assert (found.problems, found.doubled) == ((), (said,))
