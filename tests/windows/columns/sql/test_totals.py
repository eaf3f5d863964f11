"""Sums, means and variances as SQL has them, against exact recalculation."""

import math
import statistics
import warnings
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.windows.columns import Columns, reduce_segments, sql

int64 = st.one_of(st.integers(-9, 9), st.integers(-(2**63), 2**63 - 1))
doubles = st.one_of(
    st.floats(-1e3, 1e3),
    st.floats(-1e250, 1e250),
    st.sampled_from([1e16, 1.0, -1e16, 5e-324, -0.0]),
)
nan, inf = math.nan, math.inf


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def stretches(values: st.SearchStrategy, size: int = 9) -> st.SearchStrategy:
    return st.lists(st.lists(values, min_size=1, max_size=size), min_size=1, max_size=6)


def reduce_parts(columns: Columns, parts: list[list], dtype: type) -> tuple:
    column = np.array([value for part in parts for value in part], dtype)
    column.flags.writeable = False
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    return reduce_segments(columns, columns.lift(column), starts)


def answers(columns: Columns, parts: list[list], dtype: type) -> list:
    return columns.lower(reduce_parts(columns, parts, dtype)).tolist()


# Whole numbers


@given(stretches(int64))
def test_whole_sums_are_exact_whatever_their_size(parts: list[list]) -> None:
    assert answers(sql.WHOLE_SUM, parts, np.int64) == [sum(part) for part in parts]


@given(stretches(st.integers(-(10**38), 10**38)))
def test_sums_of_large_ints_are_exact(parts: list[list]) -> None:
    assert answers(sql.WHOLE_SUM, parts, object) == [sum(part) for part in parts]


@given(st.lists(st.tuples(int64, int64, int64), min_size=1))
def test_whole_sums_combine_beyond_int64_and_come_back(rows: list[tuple]) -> None:
    first, second, third = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    columns = sql.WHOLE_SUM
    both = columns.combine(columns.lift(first), columns.lift(second))
    total = columns.combine(both, columns.lift(third))
    assert columns.lower(total).tolist() == [sum(row) for row in rows]
    if all(abs(sum(row)) < 2**62 for row in rows):
        assert columns.lower(total).dtype == np.int64


@given(stretches(int64), st.sampled_from([1, 10, 10_000]))
def test_whole_means_are_rounded_half_up(parts: list[list], scale: int) -> None:
    with localcontext(prec=60):
        wanted = [
            int((Decimal(sum(part) * scale) / len(part)).quantize(Decimal(1), ROUND_HALF_UP))
            for part in parts
        ]
    assert answers(sql.whole_mean(scale), parts, np.int64) == wanted


# Floats


@settings(max_examples=300)
@given(stretches(doubles, size=40))
def test_float_sums_are_right_to_the_last_bits(parts: list[list]) -> None:
    for answer, part in zip(answers(sql.FLOAT_SUM, parts, float), parts, strict=True):
        # Off by a rounding of the total and by next to nothing of what cancelled out.
        slack = math.ulp(answer) + math.fsum(map(abs, part)) * 2.0**-90
        assert abs(Fraction(answer) - sum(map(Fraction, part))) <= Fraction(slack)


@given(stretches(doubles, size=40), st.randoms(use_true_random=False))
def test_the_leading_part_of_a_float_sum_does_not_depend_on_the_order(
    parts: list[list], shuffle: object
) -> None:
    total = reduce_parts(sql.FLOAT_SUM, parts, float)[0]
    for part in parts:
        shuffle.shuffle(part)
    np.testing.assert_array_equal(reduce_parts(sql.FLOAT_SUM, parts, float)[0], total)


@pytest.mark.parametrize("columns", [sql.FLOAT_SUM, sql.FLOAT_MEAN])
def test_float_sums_and_means_follow_ieee_754(columns: Columns) -> None:
    parts = [[inf, 1.0], [inf, -inf], [nan, 1.0], [-inf], [1.0, 3.0], [0.0], [1e308, 1e308]]
    given = answers(columns, parts, float)
    share = [2 if columns is sql.FLOAT_MEAN and len(part) == 2 else 1 for part in parts]
    wanted = [inf, nan, nan, -inf, 4.0, 0.0, inf]
    np.testing.assert_array_equal(given, np.array(wanted) / share)


@given(stretches(doubles, size=20))
def test_float_means(parts: list[list]) -> None:
    wanted = [math.fsum(part) / len(part) for part in parts]
    slack = max(abs(value) for part in parts for value in part) * 1e-15
    assert answers(sql.FLOAT_MEAN, parts, float) == pytest.approx(wanted, rel=1e-15, abs=slack)


@given(stretches(int64))
def test_means_of_ints(parts: list[list]) -> None:
    wanted = [sum(part) / len(part) for part in parts]
    assert answers(sql.FLOAT_MEAN, parts, np.int64) == pytest.approx(wanted, rel=1e-14)


# Variances


@pytest.mark.parametrize("base", [0.0, 1e9])
@given(stretches(st.floats(-1e3, 1e3), size=20))
def test_variances(base: float, parts: list[list]) -> None:
    parts = [[base + value for value in part] for part in parts]
    variances = answers(sql.VARIANCE_POPULATION, parts, float)
    spreads = answers(sql.STDDEV_POPULATION, parts, float)
    for variance, spread, part in zip(variances, spreads, parts, strict=True):
        wanted = float(statistics.pvariance(map(Fraction, part)))
        assert variance == pytest.approx(wanted, rel=1e-6, abs=base * 1e-12)
        assert spread == pytest.approx(math.sqrt(variance))


@given(stretches(st.floats(-1e3, 1e3), size=20))
def test_reducing_and_combining_agree_on_variances(parts: list[list]) -> None:
    columns = sql.VARIANCE
    reduced = reduce_parts(columns, parts, float)
    for place, part in enumerate(parts):
        state = columns.lift(np.array(part[:1]))
        for value in part[1:]:
            state = columns.combine(state, columns.lift(np.array([value])))
        for field, combined in zip(reduced, state, strict=True):
            assert field[place] == pytest.approx(combined[0], rel=1e-9, abs=1e-6)


def test_the_variance_of_what_is_not_finite_is_nan() -> None:
    parts = [[inf], [nan], [1.0, inf], [1.0, nan], [-inf, inf], [1.0]]
    given = answers(sql.VARIANCE_POPULATION, parts, float)
    np.testing.assert_array_equal(given, [nan, nan, nan, nan, nan, 0.0])
