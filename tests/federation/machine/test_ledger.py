from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.federation.machine import Account, Entry, Ledger, LoanId, reconcile


def entry(number: int, period: int = 0, buyer: str = "a", seller: str = "b", price: float = 2.0):
    return Entry(LoanId(buyer, number, f"t{number}"), period, seller, price, 3.0)


def test_balances_of_both_sides_are_opposite() -> None:
    mine = Ledger("a", [entry(1), entry(2), entry(1, buyer="b", seller="a", price=1)])
    theirs = Ledger("b", list(mine))
    assert mine.balance("b") == -6 - 6 + 3
    assert theirs.balance("a") == 9
    assert mine.partners == ["b"]
    assert reconcile(mine, theirs) == []


def test_what_is_paid_to_others_is_no_business_of_a_partner() -> None:
    mine = Ledger("a", [entry(1), entry(2, seller="c")])
    assert reconcile(mine, Ledger("b", [entry(1)])) == []
    assert mine.balance() == -12


def test_every_difference_is_named() -> None:
    mine = Ledger("a", [entry(1), entry(2)])
    theirs = Ledger("b", [entry(1, price=5), entry(3)])
    found = reconcile(mine, theirs)
    assert [str(each) for each in found] == [
        "t1, offer 1 of a, period 0: 6 here, 15 there",
        "t2, offer 2 of a, period 0: 6 here, nothing there",
        "t3, offer 3 of a, period 0: nothing here, 9 there".replace("9", "6"),
    ]


def test_an_entry_is_written_once() -> None:
    ledger = Ledger("a")
    ledger.write(entry(1))
    ledger.write(entry(1, price=9))
    ledger.write(entry(1, 1))
    assert ledger.balance() == -12


@pytest.mark.parametrize(
    ("account", "paid"),
    [
        (Account(2, 20), 12),
        (Account(2, 25), 15),
        (Account(2, 13), 6 + 0.3 * 6),
        (Account(2, 0), 0),
        (Account(1, 20), 12),
        (Account(0, 99), 0),
    ],
    ids=["whole", "longer", "part", "nothing", "one period agreed", "never agreed"],
)
def test_a_loan_that_is_over_costs_what_was_served(account: Account, paid: float) -> None:
    """Two periods of ten microseconds at 6 each."""
    loan = LoanId("a", 1, "t1")
    ledger = Ledger("a", [Entry(loan, at, "b", 2.0, 3.0, 10) for at in (0, 1)])
    assert ledger.value(loan, account) == pytest.approx(paid)
    ledger.settle(loan, account)
    assert ledger.balance() == pytest.approx(-paid)
    assert ledger.settled == {loan: account}


def test_what_has_no_duration_is_paid_once_or_not_at_all() -> None:
    ledger = Ledger("a", [entry(1)])
    assert ledger.value(entry(1).loan, Account(1, 0)) == 6
    assert ledger.value(entry(1).loan, Account(0, 10)) == 0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.sampled_from("abc"))))
def test_money_is_conserved(said) -> None:
    entries = [
        entry(number, period, buyer, "abc"["abc".index(buyer) - 1])
        for number, period, buyer in said
    ]
    ledgers = [
        Ledger(name, [each for each in entries if name in (each.buyer, each.seller)])
        for name in "abc"
    ]
    assert abs(sum(each.balance() for each in ledgers)) < 1e-9
