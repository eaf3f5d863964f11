"""Bills of the simulator, on ledgers written by hand."""

from __future__ import annotations

import pytest

from holdfast.federation.machine import SECOND, Account, Entry, Ledger, LoanId, Rules
from simulator.federation.billing import Bills

OUT, BACK, AGAIN = LoanId("a", 1, "t"), LoanId("b", 1, "t"), LoanId("a", 2, "t")
PERIOD = 10 * SECOND


def circle(until: int) -> tuple[Bills, Ledger]:
    """A task of a goes to b, back to a by a contract without a duration, and to b again. It is
    with a until then for b; a pays for both of its loans."""
    bills = Bills(
        handed={OUT: ("a", "t", 0), BACK: ("b", "t", SECOND), AGAIN: ("a", "t", 2 * SECOND)},
        ended={BACK: until},
    )
    paid = [Entry(loan, at, "b", 1, 1, PERIOD) for loan in (OUT, AGAIN) for at in range(10)]
    return bills, Ledger("a", [*paid, Entry(BACK, 0, "a", 1, 1)])


def test_a_task_that_goes_in_a_circle_is_paid_for_as_long_as_the_circle_lasts() -> None:
    bills, ledger = circle(100 * SECOND)
    assert list(bills.buyer_losses(ledger, Rules(), 100 * SECOND)) == []


def test_one_time_is_not_paid_twice_when_the_circle_is_over() -> None:
    bills, ledger = circle(5 * SECOND)
    (said,) = bills.buyer_losses(ledger, Rules(), 100 * SECOND)
    assert said.endswith("some of it twice")


@pytest.mark.parametrize(("down", "is_right"), [((), False), (((50 * SECOND, True),), True)])
def test_what_one_may_pay_too_much_is_counted_by_restarts_within_the_loan(
    down: tuple[tuple[int, bool], ...], is_right: bool
) -> None:
    """Those before and after it tell nothing."""
    others = [(SECOND, True), (99 * SECOND, True)]
    bills = Bills(handed={OUT: ("a", "t", 10 * SECOND)}, ended={OUT: 60 * SECOND})
    bills.restarts["a"] = sorted([*others, *down])
    paid = [Entry(OUT, at, "b", 1, 1, PERIOD) for at in range(7)]
    ledger = Ledger("a", paid, {OUT: Account(7, 70 * SECOND)})
    assert (list(bills.buyer_losses(ledger, Rules(), 100 * SECOND)) == []) is is_right
