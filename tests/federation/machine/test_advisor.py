from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.federation.machine import Contract, Costs, Load, Smoothed, power, queueing
from holdfast.federation.machine.advisor import (
    Bounded,
    acceptance,
    advise,
    counter_offer,
    delta,
    diameter,
    empirical,
    lowest_price,
    outlook,
)
from simulator.federation.allocation import is_acceptable, is_nearly_acceptable

SHARES = np.random.default_rng(1).random((200_000, 11))
COUNTS = (0, 1, 2, 3, 5, 10)


def queue_of_125(load: Load) -> float:
    """D(n) = n / (125 - n), of the digest."""
    return load.cpu / (125 - load.cpu)


@pytest.mark.parametrize(
    ("competitors", "row"),
    [
        (1, (0.33, 0.50, 0.67, 0.83)),
        (3, (0.20, 0.40, 0.60, 0.80)),
        (5, (0.14, 0.36, 0.57, 0.79)),
        # The document cuts 0.556 off to 0.55.
        (7, (0.11, 0.33, 0.556, 0.78)),
    ],
)
def test_table_6_2(competitors: int, row: tuple[float, ...]) -> None:
    for value, asked in zip((0, 0.25, 0.5, 0.75), row, strict=True):
        assert counter_offer(value, competitors) == pytest.approx(asked, abs=0.005)


def test_the_example_of_property_2() -> None:
    assert acceptance(0.75, 0.8, 5) / 0.75 == pytest.approx(0.9997, abs=5e-5)
    with pytest.raises(InvalidArgumentError):
        acceptance(0.8, 0.75, 5)


@pytest.mark.parametrize(
    ("alpha", "mean"), [(0.01, 51.4), (-0.22, 75.6), (-0.70, 125.8), (-1.0, 150.5)]
)
def test_the_loads_of_table_7_3(alpha: float, mean: float) -> None:
    loads = Bounded(1, 300, alpha)
    assert loads.mean == pytest.approx(mean, abs=0.5)
    drawn = loads(SHARES[:, 0])
    assert drawn.mean() == pytest.approx(loads.mean, rel=0.01)
    assert loads.below(float(np.median(drawn))) == pytest.approx(0.5, abs=0.01)


def test_loads_with_shape_1_have_a_mean_too() -> None:
    close = Bounded(1, 300, 1.000001).mean
    assert Bounded(1, 300, 1.0).mean == pytest.approx(close, rel=1e-4)


@pytest.mark.parametrize(
    ("spike", "alpha", "overloaded"),
    [
        (Bounded(0.01, 10, 0.14), -1.0, (1, 0.370, 0.250, 0.196, 0.136, 0.065)),
        (Bounded(0.01, 10, 0.14), -2.0, (1, 0.441, 0.309, 0.248, 0.183, 0.105)),
        (Bounded(0.01, 100, 0.5), -0.5, (1, 0.149, 0.086, 0.066, 0.047, 0.030)),
    ],
)
def test_figure_6_8(spike: Bounded, alpha: float, overloaded: tuple[float, ...]) -> None:
    """P(overload | spike) by contracts, against the digest's own calculation."""
    sellers = Bounded(0.01, 1.0, alpha)
    found = [outlook(spike, sellers, count, SHARES).overloaded for count in COUNTS]
    assert found == pytest.approx(overloaded, abs=0.005)


def test_figure_6_9() -> None:
    sellers = Bounded(0.01, 1.0, -1.0)
    found = [outlook(Bounded(0.01, 10, 0.14), sellers, n, SHARES).overload for n in COUNTS]
    assert found == pytest.approx((0.99, 0.77, 0.64, 0.53, 0.38, 0.15), abs=0.02)


def test_how_much_cheaper_a_unit_gets() -> None:
    assert delta(queue_of_125, Load(1), 100, 1, 1.0) == pytest.approx(0.0142, abs=5e-5)
    assert delta(queue_of_125, Load(1), 100, 4, 1.0) == pytest.approx(0.0486, abs=5e-5)


def test_the_range_for_a_diameter() -> None:
    price = 125 / (25 * 26)
    low = lowest_price(queue_of_125, Load(1), price, 5, 1.0)
    assert price - low == pytest.approx(0.0486, abs=5e-5)
    assert lowest_price(queue_of_125, Load(1), price, 1, 1.0) == price
    with pytest.raises(InvalidArgumentError, match="too few"):
        lowest_price(queue_of_125, Load(1), 0.0082, 5, 1.0)


def chain(*names: str) -> list[Contract]:
    return [Contract(one, other, 1, 1) for one, other in pairwise(names)]


def test_the_diameter_goes_from_buyers_to_sellers() -> None:
    assert diameter([*chain("a", "b", "c"), *chain("c", "b", "a")]) == 2
    assert diameter([]) == 0
    with pytest.raises(InvalidArgumentError, match="from b to a"):
        diameter(chain("a", "b"))


def test_advice_from_a_history() -> None:
    random = np.random.default_rng(3)
    history = [*random.uniform(0.3, 0.8, 950), *random.uniform(1.1, 2.0, 50)]
    shares = random.random((5_000, 9))
    cost = Costs(queueing(), power())
    advice = advise(cost, history, shares, capacity=0.9, upkeep=0.001, hops=3)
    assert advice.spikes == 0.05
    left = [each.overload for each in advice.outlooks]
    assert left == sorted(left, reverse=True)
    assert 1 <= advice.contracts < 8
    assert advice.benefit(advice.contracts) > advice.benefit(advice.contracts - 1) + 0.001
    assert advice.cheap < advice.low < advice.high


def test_no_spikes_need_no_contracts() -> None:
    advice = advise(Costs(), [0.2, 0.3], np.random.default_rng(1).random((10, 4)), capacity=0.9)
    assert (advice.spikes, advice.contracts) == (0, 0)


@pytest.mark.parametrize("history", [[], [-1.0], [float("nan")]])
def test_a_history_is_of_loads(history: list[float]) -> None:
    with pytest.raises(InvalidArgumentError, match="history"):
        empirical(history)


def test_acceptable_allocations() -> None:
    assert is_acceptable([3, 5], [5, 5])
    assert not is_acceptable([2, 6], [5, 5])
    assert is_acceptable([6, 5], [5, 5])
    assert not is_acceptable([8, 4], [5, 5])
    # With prices from 4 to 5, ten tasks are too many for these two.
    assert not is_acceptable([4, 5], [5, 5], spare=1)
    assert is_nearly_acceptable([8, 4], [5, 5], 2)
    assert not is_nearly_acceptable([8, 3], [5, 5], 2)
    with pytest.raises(InvalidArgumentError):
        is_acceptable([1], [1, 2])


def test_a_smoothed_load_follows_slowly() -> None:
    smoothed = Smoothed(10)
    assert smoothed.measure(Load(1, 1), 0) == Load(1, 1)
    after = smoothed.measure(Load(0, 0), 10)
    assert after.cpu == pytest.approx(0.368, abs=0.001)
    assert smoothed.measure(Load(5, 5), 3) == after
    with pytest.raises(InvalidArgumentError):
        Smoothed(0)
