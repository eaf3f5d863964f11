from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidArgumentError
from holdfast.federation.machine import (
    Costs,
    Load,
    Units,
    check_cost,
    check_curve,
    is_overloaded,
    marginal,
    points,
    power,
    queueing,
    total,
    unit_marginal,
    utility,
)

shares = st.floats(0, 3)


def test_the_document_s_cost_up_to_the_knee() -> None:
    cost = Costs(queueing(), queueing())
    assert cost(Load(0.5, 0.75)) == pytest.approx(0.5 / 0.5 + 0.75 / 0.25)
    assert cost(Load()) == 0


def test_the_example_of_the_analysis() -> None:
    """D(n) = n / (125 - n): the price of 100 tasks, section 3.6 of the digest."""
    cost = queueing(0.99)
    price = cost(100 / 125) - cost(99 / 125)
    assert price == pytest.approx(125 / (25 * 26))


@given(shares, shares, st.floats(0.5, 0.99))
def test_at_and_beyond_saturation_costs_are_finite_increase_and_bend_up(
    one: float, other: float, knee: float
) -> None:
    cost = queueing(knee)
    low, high = sorted((one, other))
    middle = (low + high) / 2
    assert math.isfinite(cost(high))
    assert cost(low) <= cost(high)
    assert cost(middle) <= (cost(low) + cost(high)) / 2 * (1 + 1e-9) + 1e-9


def test_more_overload_costs_more_by_the_unit() -> None:
    """A straight line past the knee would make all overload cost alike."""
    cost = Costs()
    slopes = [marginal(cost, Load(0.01), Load(level)) for level in (0.9, 1.0, 1.5, 3.0)]
    assert slopes == sorted(slopes)
    assert len(set(slopes)) == 4


def test_points_are_joined_by_lines_and_the_last_goes_on() -> None:
    cost = points([(0, 0), (0.5, 1), (1, 4)])
    assert [cost(share) for share in (0, 0.25, 0.5, 0.75, 1, 2)] == [0, 0.5, 1, 2.5, 4, 10]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ([(0, 0)], "two or more"),
        ([(0.1, 0), (1, 1)], "at 0"),
        ([(0, 0), (0, 1)], "ascending"),
        ([(0, 1), (1, 1)], "does not rise"),
        ([(0, 0), (0.5, 5), (1, 6)], "flatter"),
    ],
)
def test_points_that_make_no_cost(given: list[tuple[float, float]], word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        points(given)


@pytest.mark.parametrize(
    ("curve", "word"),
    [
        (math.sqrt, "not convex"),
        (lambda share: -share, "falls"),
        (lambda share: 0.0, "does not rise"),
        (lambda share: share / (1 - share) if share != 1 else math.inf, "no value at share 1"),
    ],
)
def test_a_curve_of_one_s_own_is_checked(curve, word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        check_curve("cpu", curve)


def test_a_cost_of_one_s_own_is_checked() -> None:
    check_cost(Costs())
    check_cost(lambda load: (load.cpu + load.bandwidth) ** 2)
    with pytest.raises(InvalidArgumentError, match="not convex"):
        check_cost(lambda load: load.cpu + load.bandwidth - 0.4 * load.cpu * load.bandwidth)


@pytest.mark.parametrize("call", [lambda: queueing(1.0), lambda: power(0), lambda: power(1, 0.5)])
def test_curves_that_are_none(call) -> None:
    with pytest.raises(InvalidArgumentError):
        call()


def test_a_marginal_cost_is_what_a_task_adds_to_the_rest() -> None:
    cost = Costs(power(1, 2), power(1, 2))
    assert marginal(cost, Load(1), Load(2)) == 9 - 4
    assert unit_marginal(cost, Load(1), Load(2), 0.5) == 10
    assert utility(cost, Load(2), 7.0) == 3
    assert is_overloaded(cost, Load(1.1), Load(1))
    assert not is_overloaded(cost, Load(1), Load(1))
    with pytest.raises(InvalidArgumentError):
        unit_marginal(cost, Load(1), Load(2), 0)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_loads_and_units_are_amounts(bad: float) -> None:
    with pytest.raises(InvalidArgumentError):
        Load(bad)
    with pytest.raises(InvalidArgumentError):
        Units(bad)
    with pytest.raises(InvalidArgumentError):
        Units(0, 0)


def test_units_weigh_resources() -> None:
    assert Units(1, 0.5).of(Load(0.25, 0.5)) == 0.5


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1))), st.randoms())
def test_a_sum_of_loads_does_not_depend_on_their_order(pairs, random) -> None:
    loads = [Load(*pair) for pair in pairs]
    before = total(loads)
    random.shuffle(loads)
    assert total(loads) == before
