"""Sums, means and spread: how exact they are, how they treat NaN and infinity, what they refuse."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.windows import monoids as m
from holdfast.windows.amta import Amta
from holdfast.windows.monoid import Monoid
from holdfast.windows.policies import last
from tests.windows.monoids.folds import answer, fold, fold_in_halves, refuses

NAN, INF = math.nan, math.inf

# Sums


@given(st.lists(st.floats(-1e300, 1e300), max_size=60))
def test_sum_of_floats_is_as_good_as_in_twice_the_precision(values: list[float]):
    exact = sum(map(Fraction, values))
    size = sum(abs(Fraction(value)) for value in values)
    bound = abs(exact) / 2**52 + size * (len(values) + 1) ** 2 / 2**104 + Fraction(5e-324)
    for state in (fold(m.sum, values), fold_in_halves(m.sum, values)):
        assert abs(Fraction(m.sum.lower(state)) - exact) <= bound


def test_sum_keeps_what_is_small_beside_what_is_huge():
    window = Amta(m.sum)
    assert window.roll([1e16, 1.0, -1e16, 1.0, 1e16, -1.0, -1e16] * 50, last(7))[6:] == [1.0] * 344


def test_sum_over_a_long_window_does_not_drift():
    window = Amta(m.sum)
    values = [0.1 * (-1) ** index * 10.0 ** (index % 16) for index in range(3000)]
    results = window.roll(values, last(1000))
    for index in range(1000, 3000, 37):
        exact = math.fsum(values[index - 999 : index + 1])
        assert math.isclose(results[index], exact, rel_tol=1e-15)


def test_sum_of_ints_is_exact_at_any_size():
    values = [2**64, 2**64 + 1, -1, 10**400]
    result = answer(m.sum, *values)
    assert result == 2**65 + 10**400
    assert type(result) is int


def test_sum_of_ints_and_floats_keeps_what_a_float_cannot_hold():
    assert answer(m.sum, 2**60 + 1, 0.5, -(2**60)) == 1.5
    assert answer(m.sum, 0.5, 2**60 + 1, -(2**60)) == 1.5


def test_sum_of_a_float_and_an_int_beyond_all_floats_is_infinite():
    assert answer(m.sum, 0.5, 10**400) == INF
    assert answer(m.sum, -(10**400), 0.5) == -INF


def test_sum_takes_booleans_as_0_and_1():
    result = answer(m.sum, True, False, True)
    assert result == 2
    assert type(result) is int


def test_sum_of_numpy_ints_cannot_overflow():
    result = answer(m.sum, *[np.int64(2**62)] * 4)
    assert result == 2**64
    assert type(result) is int
    assert answer(m.sum, np.uint8(200), np.uint8(100)) == 300


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, INF], INF),
        ([INF, 1.0], INF),
        ([INF, INF], INF),
        ([-INF, 1, 2.0], -INF),
        ([1, INF], INF),
        ([1e308, 1e308], INF),
        ([INF, -INF], NAN),
        ([NAN, 1.0], NAN),
        ([1, NAN], NAN),
    ],
)
@pytest.mark.parametrize("monoid", [m.sum, m.mean])
def test_sum_and_mean_treat_nan_and_infinity_as_ieee_754_does(
    monoid: Monoid[Any, Any, Any], values: list[Any], expected: float
):
    assert answer(monoid, *values) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("stranger", [NAN, INF, -INF])
@pytest.mark.parametrize("monoid", [m.sum, m.mean, m.variance, m.stddev_population])
def test_nan_and_infinity_leave_with_the_update_that_brought_them(
    monoid: Monoid[Any, Any, Any], stranger: float
):
    values = [1.0, 2.0, stranger, 3.0, 4.0, 6.0]
    results = Amta(monoid).roll(values, last(3))
    assert all(not math.isfinite(result) for result in results[2:5])
    assert results[5] == pytest.approx(answer(monoid, 3.0, 4.0, 6.0))


# Means and spread


def test_mean_of_ints_does_not_round_their_sum():
    assert answer(m.mean, 2**53, 1, 1, 2) == (2**53 + 4) / 4


def test_mean_of_ints_beyond_all_floats_is_infinite():
    assert answer(m.mean, 10**400, 10**400) == INF
    assert answer(m.mean, -(10**400)) == -INF


def test_variance_is_stable_far_from_zero():
    values = [1e9 + offset for offset in (4, 7, 13, 16)]
    assert answer(m.variance, *values) == 30.0
    assert m.variance.lower(fold_in_halves(m.variance, values)) == 30.0


def test_variance_follows_spark_where_there_is_too_little_to_vary():
    assert answer(m.variance) is None
    assert answer(m.variance, 5) is None
    assert answer(m.stddev, 5) is None
    assert answer(m.variance_population, 5) == 0.0
    assert answer(m.stddev_population, 5) == 0.0
    assert answer(m.variance_population) is None


def test_spread_of_two_values():
    assert answer(m.variance, 1, 3) == 2.0
    assert answer(m.variance_population, 1, 3) == 1.0
    assert answer(m.stddev, 1, 3) == math.sqrt(2)
    assert answer(m.stddev_population, 1, 3) == 1.0


def test_variance_agrees_with_numpy_on_a_long_window():
    values = [math.sin(index) * 1e3 + 1e6 for index in range(2000)]
    results = Amta(m.variance).roll(values, last(500))
    for index in range(499, 2000, 123):
        expected = np.var(values[index - 499 : index + 1], ddof=1)
        assert results[index] == pytest.approx(expected, rel=1e-9)


def test_geometric_mean_does_not_overflow_where_the_product_would():
    assert answer(m.geometric_mean, *[1e300] * 10) == pytest.approx(1e300)
    assert answer(m.geometric_mean, 1e-300, 1e300) == pytest.approx(1.0)
    assert answer(m.geometric_mean, INF, 1.0) == INF
    assert answer(m.geometric_mean, 10**400) == INF


# Refusals


@pytest.mark.parametrize("value", [0, -1, -0.5, -INF, NAN, False])
def test_geometric_mean_refuses_what_is_not_above_zero(value: Any):
    refuses(m.geometric_mean, value, because="is not above 0")


@pytest.mark.parametrize("monoid", [m.variance, m.stddev_population])
def test_variance_refuses_ints_beyond_all_floats(monoid: Monoid[Any, Any, Any]):
    refuses(monoid, 10**400, because="beyond the range of a float")
