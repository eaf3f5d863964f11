from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.federation.machine import Contract, Cost, Load, Task, Units, marginal
from holdfast.federation.machine.selection import (
    bid,
    choose_offer,
    choose_taken,
    counter_price,
    is_worth_keeping_out,
    keep_apart,
)

UNITS = Units()


def square(load: Load) -> float:
    """The price of level P is P: the next task at n costs n + 1/2."""
    return load.cpu**2 / 2


def ones(count: int) -> list[tuple[int, Load]]:
    return [(at, Load(1.0)) for at in range(count)]


@pytest.mark.parametrize(("load", "offered"), [(99, 0), (100, 0), (101, 1), (110, 10)])
def test_a_buyer_offers_what_is_above_the_price(load: int, offered: int) -> None:
    assert len(choose_offer(square, Load(load), ones(load), 100, UNITS)) == offered


@pytest.mark.parametrize(("load", "taken"), [(90, 5), (97, 3), (99, 1), (100, 0), (130, 0)])
def test_a_seller_takes_what_stays_below_the_price(load: int, taken: int) -> None:
    assert len(choose_taken(square, Load(load), ones(5), 100, UNITS)) == taken


def test_at_equality_nothing_moves() -> None:
    price = marginal(square, Load(1), Load(9))
    assert choose_offer(square, Load(10), ones(10), price, UNITS) == []
    assert choose_taken(square, Load(9), ones(1), price, UNITS) == []


def test_a_move_must_pay_for_its_way_there_and_back() -> None:
    saving = marginal(square, Load(1), Load(10)) - 10
    assert choose_offer(square, Load(11), ones(11), 10, UNITS, migration=saving / 2) == []
    assert len(choose_offer(square, Load(11), ones(11), 10, UNITS, migration=saving / 2.01)) == 1


def test_a_margin_keeps_a_load_that_trembles_where_it_is() -> None:
    assert len(choose_offer(square, Load(101), ones(101), 100, UNITS)) == 1
    assert choose_offer(square, Load(101), ones(101), 100, UNITS, margin=0.02) == []
    assert choose_taken(square, Load(99), ones(1), 100, UNITS, margin=0.02) == []


@given(
    st.lists(st.floats(0.01, 5), max_size=8),
    st.floats(0, 20),
    st.floats(0.1, 30),
    st.sampled_from([1.0, 2.0, 3.0]),
)
def test_whatever_is_chosen_pays_as_a_whole(
    loads: list[float], base: float, price: float, exponent: float
) -> None:
    """Calculated at one go, not task by task."""
    cost: Cost = lambda load: load.cpu**exponent  # noqa: E731
    tasks = [(at, Load(each)) for at, each in enumerate(loads)]
    amount = sum(loads)
    taken = choose_taken(cost, Load(base), tasks, price, UNITS)
    more = sum(loads[at] for at in taken)
    assert not taken or cost(Load(base + more)) - cost(Load(base)) < price * more * (1 + 1e-9)
    offered = choose_offer(cost, Load(base + amount), tasks, price, UNITS)
    less = sum(loads[at] for at in offered)
    saved = cost(Load(base + amount)) - cost(Load(base + amount - less))
    assert not offered or saved > price * less * (1 - 1e-9)


def test_no_task_that_is_left_would_have_paid() -> None:
    offered = choose_offer(square, Load(20), ones(20), 12.2, UNITS)
    rest = Load(20 - len(offered))
    assert marginal(square, Load(1), rest - Load(1)) <= 12.2


def test_a_bid_is_for_one_task_at_its_valuation() -> None:
    contract = Contract("a", "b", 100, 95)
    asked = bid(square, Load(96), ones(3), contract, 0)
    assert asked is not None
    assert (asked.price, asked.tasks) == (96.5, (0,))
    assert bid(square, Load(100), ones(3), contract, 0) is None
    assert bid(square, Load(96), ones(3), Contract("a", "b", 100, 100), 0) is None


def test_at_the_highest_price_all_that_pay_are_bid_for() -> None:
    asked = bid(square, Load(96), ones(9), Contract("a", "b", 100, 95), 1)
    assert asked is not None
    assert (asked.price, len(asked.tasks)) == (100, 4)


@pytest.mark.parametrize(("competitors", "price"), [(0, 0.5), (1, 1.0), (2, 0.75), (5, 0.6)])
def test_competition_brings_a_bid_down_to_its_valuation(competitors: int, price: float) -> None:
    assert counter_price(0.5, 1.0, competitors) == pytest.approx(price)


def test_what_would_cost_as_much_at_home_stays_out() -> None:
    assert is_worth_keeping_out(square, Load(9.5), Load(1), 10, UNITS)
    assert not is_worth_keeping_out(square, Load(9.4), Load(1), 10, UNITS)


def replica(name: str, stage: str = "") -> Task:
    return Task(name, Load(0.1), stage=stage)


def test_replicas_of_a_stage_are_kept_apart() -> None:
    held = [replica("sums-a", "sums"), replica("alone")]
    assert keep_apart(held, [replica("sums-b", "sums")]) == []
    offered = [replica("alone"), replica("clean-a", "clean"), replica("clean-b", "clean")]
    assert keep_apart(held, offered) == offered[:2]
    # One that was lent and comes back by another way is the same.
    assert keep_apart(held, [replica("sums-a", "sums")]) == [replica("sums-a", "sums")]
