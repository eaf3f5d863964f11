"""Sums and spreads against rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.edge.machine.aggregates import aggregate

MODERATE = st.floats(-1e100, 1e100)


def exact_variance(values: list[float]) -> Fraction:
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return sum((value - mean) ** 2 for value in exact) / (len(exact) - 1)


@given(parts=st.lists(st.lists(MODERATE, max_size=40), max_size=5))
def test_a_sum_of_any_parts_has_the_error_of_twice_the_precision(parts: list[list[float]]) -> None:
    made = aggregate("sum")
    whole = made.combine_all(made.add(made.empty(), np.array(part)) for part in parts)
    values = [value for part in parts for value in part]
    if not values:
        assert made.answer(whole) is None
        return
    exact = sum(map(Fraction, values))
    size = sum(abs(Fraction(value)) for value in values)
    error = abs(Fraction(made.answer(whole)) - exact)
    assert error <= abs(exact) * Fraction(2) ** -52 + size * Fraction(2) ** -90


@given(parts=st.lists(st.lists(st.floats(-1e60, 1e60), max_size=30), max_size=4))
def test_a_variance_of_any_parts_is_right(parts: list[list[float]]) -> None:
    made = aggregate("variance")
    whole = made.combine_all(made.add(made.empty(), np.array(part)) for part in parts)
    values = [value for part in parts for value in part]
    if len(values) < 2:
        assert made.answer(whole) is None
        return
    exact = exact_variance(values)
    scale = max(abs(Fraction(value) - Fraction(values[0])) for value in values) ** 2
    error = abs(Fraction(made.answer(whole)) - exact)
    # Squares of less than 1e-290 are lost in floats: there the bound is absolute.
    assert error <= exact * Fraction(2) ** -50 + scale * Fraction(2) ** -85 + Fraction(1e-280)


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e9, 1e12])
@pytest.mark.parametrize("outlier_first", [False, True])
def test_a_small_spread_round_a_large_mean_keeps_its_digits(
    offset: float, outlier_first: bool
) -> None:
    values = (np.random.default_rng(3).normal(size=2000) + offset).tolist()
    if outlier_first:
        values = [-1e3 * max(1.0, abs(offset)), *values]
    made = aggregate("variance")
    halves = made.combine(
        made.add(made.empty(), np.array(values[:900])),
        made.add(made.empty(), np.array(values[900:])),
    )
    assert made.answer(halves) == pytest.approx(float(exact_variance(values)), rel=1e-13)


def test_a_million_values_do_not_wear_a_sum_out() -> None:
    made = aggregate("sum")
    values = np.random.default_rng(5).normal(1e8, 1.0, 1_000_000)
    assert made.answer(made.add(made.empty(), values)) == math.fsum(values)


def test_combined_spreads_keep_what_is_infinite() -> None:
    made = aggregate("variance")

    def of(*values: float) -> tuple[float, ...]:
        return made.add(made.empty(), np.array(values))

    assert made.answer(made.combine(of(1e200, -1e200), of(1.0))) == math.inf
    assert math.isnan(made.answer(made.combine(of(math.inf), of(1.0))))
    assert math.isnan(made.answer(made.combine(of(1.0), of(math.inf, 2.0))))
    assert made.answer(made.combine(of(1e300), of(1e300))) == 0.0
    assert made.answer(made.combine(of(1e300), of(-1e300))) == math.inf
