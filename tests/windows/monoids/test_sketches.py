"""Approximate distinct counts and quantiles: error bounds, repeatability, what they take."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from enum import StrEnum
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgumentError, InvalidValueError
from holdfast.windows.amta import Amta
from holdfast.windows.monoid import Monoid
from holdfast.windows.monoids.sketches import approx_distinct, approx_quantiles
from holdfast.windows.policies import last

DECILES = [share / 10 for share in range(11)]


def fold_in_halves(monoid: Monoid[Any, bytes, Any], states: list[bytes]) -> bytes:
    if len(states) == 1:
        return states[0]
    middle = len(states) // 2
    return monoid.combine(
        fold_in_halves(monoid, states[:middle]), fold_in_halves(monoid, states[middle:])
    )


def count_distinct(*values: Any) -> int:
    monoid = approx_distinct()
    return monoid.lower(reduce(monoid.combine, map(monoid.lift, values), monoid.identity))


def rank_error(values: list[float], share: float, quantile: float) -> float:
    """How far the share is from the ranks that the quantile has among the sorted values."""
    low = bisect_left(values, quantile) / len(values)
    high = bisect_right(values, quantile) / len(values)
    return max(low - share, share - high, 0.0)


def scatter(count: int) -> list[float]:
    """Values from 0 to 1 in an order without any trend."""
    return [index * 0.6180339887498949 % 1 for index in range(count)]


def test_distinct_count_of_many_values_is_within_its_error():
    monoid = approx_distinct()
    states = [monoid.lift(f"user {number}") for number in range(100_000)]
    estimate = monoid.lower(fold_in_halves(monoid, states))
    assert abs(estimate - 100_000) <= 3 * 0.016 * 100_000


@pytest.mark.parametrize("count", [1, 2, 8, 9, 100, 384])
def test_few_distinct_values_are_counted_exactly(count: int):
    assert count_distinct(*range(count), *range(count)) == count


def test_distinct_count_does_not_depend_on_how_the_values_were_combined():
    monoid = approx_distinct()
    for count in (300, 384, 385, 600, 2000):
        states = [monoid.lift(number) for number in range(count)]
        answers = {
            monoid.lower(fold_in_halves(monoid, states)),
            monoid.lower(fold_in_halves(monoid, states[::-1])),
            monoid.lower(reduce(monoid.combine, states)),
            monoid.lower(reduce(monoid.combine, states + states[: count // 2])),
        }
        assert len(answers) == 1


def test_distinct_values_leave_the_window_with_their_updates():
    values = [*range(50), *([7] * 60)]
    results = Amta(approx_distinct()).roll(values, last(50))
    assert results[49] == 50
    assert results[-1] == 1


def test_more_registers_make_the_count_better():
    def worst_error(lg_k: int) -> float:
        monoid = approx_distinct(lg_k)
        state, worst = monoid.identity, 0.0
        for number in range(1, 3001):
            state = monoid.combine(state, monoid.lift(number))
            if number % 500 == 0:
                worst = max(worst, abs(monoid.lower(state) - number) / number)
        return worst

    assert worst_error(14) < 0.03 < worst_error(5)


def test_equal_values_are_one_value():
    assert count_distinct(1, 1.0, True, np.int64(1), np.float32(1)) == 1
    assert count_distinct(0, 0.0, -0.0, False, np.bool_(False)) == 1
    assert count_distinct("a", np.str_("a")) == 1
    assert count_distinct(math.nan, -math.nan, np.float64("nan")) == 1
    assert count_distinct(0.1, np.float64(0.1)) == 1


def test_a_member_of_a_string_enumeration_is_its_string():
    class Side(StrEnum):
        BUY = "buy"

    assert count_distinct(Side.BUY, "buy") == 1


def test_different_values_are_different_whatever_their_type():
    values = [1, "1", b"1", "", b"", "0x1", "'1'", 1.5, "1.5", -1, "é", "e\u0301", "\ud800"]
    values += [2**64, 2**64 + 1, 10**5000, math.inf, -math.inf, math.nan, "nan", b"\xff", "\xff"]
    assert count_distinct(*values) == len(values)


@pytest.mark.parametrize("value", [None, (1, 2), [1], 1j, object], ids=repr)
def test_what_is_neither_number_nor_text_is_not_counted(value: Any):
    window = Amta(approx_distinct())
    window.insert(1)
    with pytest.raises(InvalidValueError, match=r"^approx_distinct: .* is no number, string"):
        window.insert(value)
    assert (len(window), window.result()) == (1, 1)


@pytest.mark.parametrize("lg_k", [3, 22, 12.5, "12", None])
def test_registers_out_of_range_are_refused(lg_k: Any):
    with pytest.raises(InvalidArgumentError, match="lg_k is"):
        approx_distinct(lg_k)


def test_quantiles_of_many_values_are_within_their_rank_error():
    monoid = approx_quantiles(DECILES)
    values = [-math.log(1 - value) for value in scatter(20_000)]
    results = monoid.lower(fold_in_halves(monoid, [monoid.lift(value) for value in values]))
    assert results is not None
    values.sort()
    assert (results[0], results[-1]) == (values[0], values[-1])
    errors = map(rank_error, [values] * 11, DECILES, results)
    assert max(errors) < 0.02


def test_quantiles_near_the_ends_are_better():
    shares = [0.001, 0.01, 0.99, 0.999]
    monoid = approx_quantiles(shares)
    values = scatter(20_000)
    results = monoid.lower(fold_in_halves(monoid, [monoid.lift(value) for value in values]))
    assert results is not None
    values.sort()
    assert max(map(rank_error, [values] * 4, shares, results)) < 0.002


def test_quantiles_of_a_sliding_window_are_those_of_its_values():
    values = scatter(400)
    values += [value + 5 for value in scatter(400)]
    results = Amta(approx_quantiles(DECILES)).roll(values, last(150))
    for index in range(149, len(values), 50):
        inside = sorted(values[index - 149 : index + 1])
        assert max(map(rank_error, [inside] * 11, DECILES, results[index])) < 0.03


@given(st.lists(st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6), min_size=1, max_size=8))
@settings(max_examples=50)
def test_quantiles_of_few_values_lie_between_their_neighbours(values: list[float]):
    monoid = approx_quantiles([0, 0.5, 1])
    state = reduce(monoid.combine, map(monoid.lift, values))
    least, median, greatest = monoid.lower(state) or []
    values.sort()
    assert (least, greatest) == (values[0], values[-1])
    middle = len(values) // 2
    assert values[max(middle - 1, 0)] <= median <= values[min(middle + 1, len(values) - 1)]


def test_the_same_value_throughout_is_every_quantile():
    monoid = approx_quantiles(DECILES)
    assert monoid.lower(fold_in_halves(monoid, [monoid.lift(7)] * 3000)) == [7.0] * 11


@pytest.mark.parametrize("monoid", [approx_distinct(), approx_quantiles([0.5])])
def test_the_same_updates_give_the_same_bytes(monoid: Monoid[Any, bytes, Any]):
    states = [monoid.lift(value) for value in scatter(5000)]
    assert [monoid.lift(value) for value in scatter(5000)] == states
    runs = {fold_in_halves(monoid, states) for _ in range(3)}
    assert len(runs) == 1
    chains = {reduce(monoid.combine, states) for _ in range(2)}
    assert len(chains) == 1


@pytest.mark.parametrize("monoid", [approx_distinct(), approx_quantiles([0.5])])
def test_the_identity_changes_no_byte(monoid: Monoid[Any, bytes, Any]):
    for count in (1, 2, 500):
        state = fold_in_halves(monoid, [monoid.lift(value) for value in scatter(count)])
        older = monoid.combine(monoid.identity, state)
        newer = monoid.combine(state, monoid.identity)
        assert monoid.lower(older) == monoid.lower(newer) == monoid.lower(state)


def test_states_stay_small():
    distinct, quantiles = approx_distinct(), approx_quantiles([0.5])
    for monoid, limit in ((distinct, 4200), (quantiles, 5000)):
        state = fold_in_halves(monoid, [monoid.lift(value) for value in scatter(20_000)])
        assert len(state) <= limit


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_quantiles_take_finite_values_only(value: float):
    with pytest.raises(InvalidValueError, match=r"approx_quantiles: .*inf is not finite"):
        approx_quantiles([0.5]).lift(value)


@pytest.mark.parametrize("probabilities", [[], 0.5, [1.5], [-0.1], [math.nan], ["x"], None])
def test_probabilities_that_make_no_sense_are_refused(probabilities: Any):
    with pytest.raises(InvalidArgumentError, match="probabilities is"):
        approx_quantiles(probabilities)


@pytest.mark.parametrize("k", [9, 65536, 200.5, None])
def test_a_digest_size_out_of_range_is_refused(k: Any):
    with pytest.raises(InvalidArgumentError, match="k is"):
        approx_quantiles([0.5], k)
