from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.contracts import Entry, Ledger, LoanId, reconcile


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


def test_an_entry_is_written_once_and_may_be_voided() -> None:
    ledger = Ledger("a")
    ledger.write(entry(1))
    ledger.write(entry(1, price=9))
    ledger.write(entry(1, 1))
    assert ledger.balance() == -12
    ledger.void(entry(1).loan, 1)
    assert ledger.periods(entry(1).loan) == 1


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
