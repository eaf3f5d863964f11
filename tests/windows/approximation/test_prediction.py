"""Prediction intervals against SciPy, and samples against the values they stand for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast.errors import InvalidArgumentError
from holdfast.windows.approximation.prediction import (
    LEAST,
    Sample,
    half_width,
    nearest_zero,
    student_t,
)

ANYTHING = (-math.inf, math.inf)
confidences = st.floats(0.5, 0.9999)
ordinary = st.floats(-1e6, 1e6)
any_float = st.floats(allow_nan=True, allow_infinity=True)


def observed(values: Any, span: int) -> Sample:
    sample = Sample()
    for value in values:
        sample.observe(value, span)
    return sample


def predicted(values: Any, confidence: float) -> tuple[float, float]:
    """The interval straight from the values."""
    count = len(values)
    width = np.std(values, ddof=1) * math.sqrt(1 + 1 / count)
    half = stats.t.ppf((1 + confidence) / 2, count - 1) * width
    return np.mean(values) - half, np.mean(values) + half


@given(confidence=confidences, degrees=st.one_of(st.integers(1, 300), st.integers(1, 10**7)))
def test_student_t_is_that_of_scipy(confidence: float, degrees: int) -> None:
    expected = stats.t.ppf((1 + confidence) / 2, degrees)
    assert student_t(confidence, degrees) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("degrees", [1, 2, 3, 29, 199, 200, 10**5, 10**7])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99, 0.9999])
def test_student_t_at_the_corners(confidence: float, degrees: int) -> None:
    expected = stats.t.isf((1 - confidence) / 2, degrees)
    assert student_t(confidence, degrees) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("degrees", [1, 2, 200, 10**7, 10**15])
def test_student_t_ends_for_every_confidence(degrees: int) -> None:
    confidences = [5e-324, 1e-300, 1e-20, 0.1, 1 - 1e-9, 1 - 1e-12, 1 - 2**-53]
    found = [student_t(confidence, degrees) for confidence in confidences]
    assert found == sorted(found)
    assert found[-1] == found[-2] < math.inf


@pytest.mark.parametrize(("confidence", "degrees"), [(0, 5), (1, 5), (math.nan, 5), (0.9, 0)])
def test_student_t_refuses_what_has_no_answer(confidence: float, degrees: int) -> None:
    with pytest.raises(InvalidArgumentError, match="student_t"):
        student_t(confidence, degrees)


@given(count=st.integers(2, 10**7), confidence=confidences)
def test_half_width_is_never_too_narrow_and_hardly_too_wide(count: int, confidence: float) -> None:
    t = stats.t.ppf((1 + confidence) / 2, count - 1)
    exact = t * math.sqrt(5 / (count - 1)) * math.sqrt(1 + 1 / count)
    slack = 1e-9 if count < 128 else 1e-3
    assert exact * (1 - 1e-9) <= half_width(count, 5.0, confidence) <= exact * (1 + slack)


def test_half_width_computes_few_critical_values() -> None:
    student_t.cache_clear()
    for count in range(2, 100_000):
        half_width(count, 1.0, 0.95)
    assert student_t.cache_info().misses < 800


@pytest.mark.parametrize(
    ("count", "squares"),
    [(0, 0.0), (1, 0.0), (40, math.nan), (40, math.inf), (40, -math.inf), (40, -1.0)],
)
def test_half_width_of_unknown_spread_is_infinite(count: int, squares: float) -> None:
    assert half_width(count, squares, 0.95) == math.inf


@given(
    values=st.lists(ordinary, min_size=LEAST, max_size=110),
    span=st.integers(1, 130),
    confidence=confidences,
)
def test_the_interval_is_that_of_the_values_still_held(
    values: list[float], span: int, confidence: float
) -> None:
    sample = observed(values, span)
    interval = sample.interval(confidence)
    assert interval is not None
    expected = predicted(values[-len(sample) :], confidence)
    assert interval == pytest.approx(expected, rel=1e-9, abs=1e-7)


@pytest.mark.parametrize("span", [1, 29, 30, 31, 100])
def test_at_least_the_span_and_less_than_twice_of_it_is_held(span: int) -> None:
    sample = Sample()
    for came in range(1, 500):
        sample.observe(0.0, span)
        assert min(came, span) <= len(sample) < 2 * max(LEAST, span)


@given(st.integers(1, 200))
def test_a_filling_window_keeps_every_result(size: int) -> None:
    """The span grows with the window, then stays: the last `span` are held all along."""
    sample = Sample()
    for came in range(1, 3 * size):
        span = min(came, size)
        sample.observe(float(came), span)
        assert len(sample) >= span


def test_a_span_that_shrinks_soon_lets_old_values_go() -> None:
    sample = observed([1e9] * 900, 1000)
    for _ in range(31):
        sample.observe(5.0, 10)
    assert sample.interval(0.95) == (5.0, 5.0)


def test_nothing_is_predicted_from_too_few() -> None:
    sample = observed([1.0] * (LEAST - 1), 1)
    assert sample.interval(0.95) is None
    sample.observe(1.0, 1)
    assert sample.interval(0.95) == (1.0, 1.0)


def test_a_far_mean_costs_no_digits() -> None:
    noise = np.random.default_rng(1).normal(size=300)
    near, far = observed(noise, 100).interval(0.95), observed(noise + 1e9, 100).interval(0.95)
    assert near is not None
    assert far is not None
    assert far[1] - far[0] == pytest.approx(near[1] - near[0], rel=1e-6)


def test_the_interval_holds_the_share_it_promises() -> None:
    draws = np.random.default_rng(2).normal(7, 3, size=40_000)
    sample, held, asked = Sample(), 0, 0
    for draw in map(float, draws):
        interval = sample.interval(0.9)
        if interval is not None:
            asked += 1
            held += interval[0] <= draw <= interval[1]
        sample.observe(draw, 50)
    assert held / asked == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e200])
def test_odd_values_widen_the_interval_until_they_left(odd: float) -> None:
    sample = observed([1.0] * 35, 30)
    sample.observe(odd, 30)
    for _ in range(53):
        assert sample.interval(0.95) == ANYTHING
        sample.observe(1.0, 30)
    sample.observe(1.0, 30)
    assert sample.interval(0.95) == (1.0, 1.0)


def test_large_equal_values_are_predicted() -> None:
    assert observed([1e300] * 70, 30).interval(0.95) == (1e300, 1e300)


@given(values=st.lists(any_float, max_size=100), confidence=st.floats(0.01, 0.999))
def test_no_float_makes_it_raise(values: list[float], confidence: float) -> None:
    sample = Sample()
    for value in values:
        sample.observe(value, 10)
        interval = sample.interval(confidence)
        assert interval is None or interval == ANYTHING or all(map(math.isfinite, interval))


@given(
    before=st.lists(ordinary, max_size=80),
    after=st.lists(ordinary, max_size=80),
    span=st.integers(1, 60),
)
def test_a_restored_sample_goes_on_exactly(
    before: list[float], after: list[float], span: int
) -> None:
    sample = observed(before, span)
    restored = Sample.restored(sample.saved())
    for value in after:
        for each in (sample, restored):
            each.observe(value, span)
    assert sample.saved() == restored.saved()
    assert sample.interval(0.95) == restored.interval(0.95)


def test_a_restored_sample_is_independent() -> None:
    sample = observed([1.0, 2.0], 10)
    restored = Sample.restored(sample.saved())
    sample.observe(3.0, 10)
    assert (len(sample), len(restored)) == (3, 2)


@pytest.mark.parametrize(
    ("interval", "distance"),
    [
        ((2.0, 5.0), 2.0),
        ((-5.0, -2.0), 2.0),
        ((-1.0, 5.0), 0.0),
        ((0.0, 5.0), 0.0),
        ((-5.0, 0.0), 0.0),
        ((-0.0, 0.0), 0.0),
        ((2.0, math.inf), 0.0),
        ((-math.inf, -2.0), 0.0),
        ((math.nan, math.nan), 0.0),
        ((math.nan, -2.0), 0.0),
        (ANYTHING, 0.0),
    ],
)
def test_nearest_zero(interval: tuple[float, float], distance: float) -> None:
    assert nearest_zero(interval) == distance
