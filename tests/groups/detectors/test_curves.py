"""phi against an independent implementation's values and against scipy's normal distribution."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

from holdfast.errors import InvalidArgumentError
from holdfast.groups.detectors.phi import CURVES, logistic, normal, reach

SILENCES = [0, 500, 1000, 1200, 1400, 1600, 1700]
PUBLISHED = [0.0, 0.1, 0.3, 1.6, 4.7, 10.8, 15.3]
"""Of Akka, for a mean of 1000 and a deviation of 100; each to 0.1."""


@pytest.mark.parametrize(("silence", "published"), list(zip(SILENCES, PUBLISHED, strict=True)))
def test_published_values(silence: int, published: float) -> None:
    assert logistic((silence - 1000) / 100) == pytest.approx(published, abs=0.1)


@pytest.mark.parametrize("z", [-38, -10, -5, -1, 0, 0.5, 1, 2, 4, 6, 10, 24.9, 25, 25.1, 38, 1e3])
def test_the_normal_curve_is_exact_however_far_out(z: float) -> None:
    assert normal(z) == pytest.approx(-norm.logsf(z) / math.log(10), rel=1e-11)


def test_the_curves_agree_where_the_approximation_holds() -> None:
    for z in np.linspace(-3, 3, 61):
        assert logistic(z) == pytest.approx(normal(z), abs=0.06)


@pytest.mark.parametrize("curve", CURVES)
def test_phi_rises_with_silence_and_is_never_infinite(curve: str) -> None:
    phis = [CURVES[curve](z) for z in np.concatenate([np.linspace(-50, 50, 4001), [1e6, 1e15]])]
    assert all(earlier <= later for earlier, later in pairwise(phis))
    assert phis[0] >= 0
    assert math.isfinite(phis[-1])


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("threshold", [0.1, 1, 3, 8, 12, 300, 1e5])
def test_a_threshold_is_reached_where_phi_says(curve: str, threshold: float) -> None:
    z = reach(curve, threshold)
    assert CURVES[curve](z) == pytest.approx(threshold, rel=1e-9)


def test_known_deviations_of_thresholds() -> None:
    deviations = [reach("normal", threshold) for threshold in (1, 2, 3, 8)]
    assert deviations == pytest.approx([1.28, 2.33, 3.09, 5.61], abs=0.01)


@pytest.mark.parametrize("threshold", [0, -1, math.nan, math.inf])
def test_a_threshold_is_above_nothing(threshold: float) -> None:
    with pytest.raises(InvalidArgumentError, match="threshold"):
        reach("normal", threshold)
