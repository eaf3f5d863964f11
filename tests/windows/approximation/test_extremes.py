"""The extreme value distribution against SciPy, and its fit against known distributions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import special, stats

from holdfast.errors import InvalidArgumentError
from holdfast.windows.approximation.extremes import Gev, fit_gev

shapes = st.one_of(st.just(0.0), st.floats(-3, 0.9))
values = st.floats(-1e6, 1e6)


def drawn(shape: float, size: Any, seed: int) -> Any:
    return stats.genextreme.rvs(-shape, loc=10, scale=2, size=size, random_state=seed)


def moments_fit(sample: Any) -> tuple[float, float, float]:
    """Location, scale and shape as the paper writes them, with binomials for the weights."""
    n, ordered, rank = len(sample), np.sort(sample), np.arange(len(sample))
    b0, b1, b2 = (
        np.mean(special.binom(rank, r) / special.binom(n - 1, r) * ordered) for r in range(3)
    )
    c = (2 * b1 - b0) / (3 * b2 - b0) - np.log(2) / np.log(3)
    k = 7.8590 * c + 2.9554 * c**2
    scale = (2 * b1 - b0) * k / (special.gamma(1 + k) * (1 - 2.0**-k))
    return b0 + scale * (special.gamma(1 + k) - 1) / k, scale, -k


@given(p=st.floats(0.001, 0.999), shape=shapes, location=values, scale=st.floats(1e-3, 1e3))
def test_quantiles_are_those_of_scipy(
    p: float, shape: float, location: float, scale: float
) -> None:
    assume(shape == 0 or abs(shape) > 1e-6)  # SciPy has few digits below that
    expected = stats.genextreme.ppf(p, -shape, loc=location, scale=scale)
    found = Gev(location, scale, shape).quantile(p)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 * scale)


@given(p=st.floats(0.001, 0.999), shape=st.floats(-1e-7, 1e-7))
def test_quantiles_near_shape_zero_are_those_of_gumbel(p: float, shape: float) -> None:
    expected = stats.gumbel_r.ppf(p, loc=10, scale=2)
    assert Gev(10, 2, shape).quantile(p) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.5, 1.5, math.nan])
def test_quantiles_outside_of_0_and_1_are_refused(p: float) -> None:
    with pytest.raises(InvalidArgumentError, match="quantile"):
        Gev(0, 1, 0.1).quantile(p)


@pytest.mark.parametrize("shape", [-2.0, -0.2, 0.2, 0.9])
def test_the_end_point_is_where_scipy_ends(shape: float) -> None:
    low, high = stats.genextreme.support(-shape, loc=10, scale=2)
    assert Gev(10, 2, shape).end_point == pytest.approx(high if shape < 0 else low)


def test_bounds_take_the_end_point_where_there_is_one() -> None:
    bounded, gumbel, heavy = Gev(10, 2, -0.2), Gev(10, 2, 0.0), Gev(10, 2, 0.2)
    assert bounded.bounds(0.99) == (bounded.quantile(1 - 0.99), 20.0)
    assert gumbel.end_point is None
    assert gumbel.bounds(0.99) == (gumbel.quantile(1 - 0.99), gumbel.quantile(0.99))
    assert heavy.bounds(0.99) == (0.0, heavy.quantile(0.99))


@given(st.lists(values, min_size=5, max_size=60))
def test_the_fit_is_that_of_the_paper(sample: list[float]) -> None:
    assume(max(sample) - min(sample) > 1)
    location, scale, shape = moments_fit(sample)
    assume(abs(shape) > 1e-4)  # the paper's form has few digits below that
    fitted = fit_gev(sample)
    assert fitted is not None
    assert fitted.shape == pytest.approx(shape, abs=1e-7)
    assert fitted.scale == pytest.approx(scale, rel=1e-6)
    assert fitted.location == pytest.approx(location, abs=1e-5 * (1 + scale))


@pytest.mark.parametrize("shape", [-0.2, 0.0, 0.2])
def test_fits_of_thirty_are_as_good_as_the_digest_says(shape: float) -> None:
    fits = [fit_gev(list(sample)) for sample in drawn(shape, (3000, 30), seed=7)]
    found = np.array([(fit.location, fit.scale, fit.shape) for fit in fits if fit is not None])
    assert len(found) == 3000
    assert found.mean(axis=0) == pytest.approx([10, 2, shape], abs=0.06)
    assert found.std(axis=0) == pytest.approx([0.4, 0.3, 0.15], rel=0.25)


@pytest.mark.parametrize("shape", [-0.2, 0.0, 0.2])
def test_on_a_large_sample_it_agrees_with_the_likelihood_fit_of_scipy(shape: float) -> None:
    sample = drawn(shape, 3000, seed=8)
    c, location, scale = stats.genextreme.fit(sample, -shape, loc=10, scale=2)
    fitted = fit_gev(list(sample))
    assert fitted is not None
    assert (fitted.location, fitted.scale) == pytest.approx((location, scale), rel=0.03)
    assert fitted.shape == pytest.approx(-c, abs=0.05)


@given(
    sample=st.lists(st.integers(0, 1000), min_size=3, max_size=40),
    far=st.sampled_from([-(2**40), 0, 2**40]),
    exponent=st.integers(-900, 900),
)
def test_the_fit_moves_and_stretches_with_the_sample(
    sample: list[int], far: int, exponent: int
) -> None:
    assume(len(set(sample)) > 1)
    fitted = fit_gev(sample)
    moved = fit_gev([math.ldexp(value + far, exponent) for value in sample])
    assert fitted is not None
    assert moved is not None
    assert moved.shape == pytest.approx(fitted.shape, abs=1e-12)
    assert moved.scale == pytest.approx(math.ldexp(fitted.scale, exponent), rel=1e-12)
    assert moved.location == pytest.approx(math.ldexp(fitted.location + far, exponent), rel=1e-9)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=40))
def test_a_fit_of_any_floats_is_none_or_usable(sample: list[float]) -> None:
    fitted = fit_gev(sample)
    if fitted is not None:
        assert 0 < fitted.scale < math.inf
        assert math.isfinite(fitted.location)
        assert -3.31 < fitted.shape < 0.98
        low, high = fitted.bounds(0.99)
        assert low <= high


@pytest.mark.parametrize(
    "sample",
    [[0.0] * 29 + [1.0], [0.0, 0.0, 1.0], [0.0] + [1.0] * 29, [0.0, 1.0, 1.0]],
)
def test_the_most_skewed_samples_are_fitted(sample: list[float]) -> None:
    fitted = fit_gev(sample)
    assert fitted is not None
    assert -3.31 < fitted.shape < 0.98


@pytest.mark.parametrize(
    "sample",
    [
        [],
        [1.0, 2.0],
        [3.0] * 30,
        [1.0, math.nan, 2.0, 3.0],
        [1.0, 2.0, math.inf],
        [-math.inf, 2.0, 3.0],
        [-1.7e308, 0.0, 1.7e308],
    ],
)
def test_what_cannot_be_fitted_has_no_fit(sample: list[float]) -> None:
    assert fit_gev(sample) is None


def test_the_fit_is_smooth_where_the_shape_crosses_zero() -> None:
    """Of [0, m, 1] the shape is 0 at m = 2 - ln 3 / ln 2, where the fit is Gumbel's."""
    crossing = 2 - np.log(3) / np.log(2)
    fits = [fit_gev([0.0, crossing + step * 1e-7, 1.0]) for step in range(-200, 201)]
    found = np.array([(fit.location, fit.scale, fit.shape) for fit in fits if fit is not None])
    scale = 1 / (3 * np.log(2))
    location = (crossing + 1) / 3 - np.euler_gamma * scale
    assert found[200] == pytest.approx([location, scale, 0], abs=1e-12)
    assert found[0, 2] > 1e-5
    assert found[-1, 2] < -1e-5
    assert np.abs(np.diff(found, n=2, axis=0)).max() < 1e-9
