"""The detector of one peer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidArgumentError
from holdfast.groups.detectors import Phi
from holdfast.groups.detectors.phi import CURVES

MS = 1000


def watch(*intervals: int, **settings: Any) -> Phi:
    """A peer that has beaten at these intervals, from 0 on."""
    phi = Phi(**settings)
    now = 0
    phi.beat(now)
    for interval in intervals:
        now += interval
        phi.beat(now)
    return phi


def test_published_values_of_mean_1000_and_deviation_100() -> None:
    phi = watch(*[900 * MS, 1100 * MS] * 50, window=100, min_deviation=1)
    assert (phi.mean, phi.deviation) == (1000 * MS, 100 * MS)
    assert phi.last is not None
    published = {0: 0.0, 500: 0.1, 1000: 0.3, 1200: 1.6, 1400: 4.7, 1600: 10.8, 1700: 15.3}
    for silence, value in published.items():
        assert phi.phi(phi.last + silence * MS) == pytest.approx(value, abs=0.1)


def test_the_normal_curve_is_the_formula_of_the_paper() -> None:
    phi = watch(*[900 * MS, 1100 * MS] * 50, window=100, min_deviation=1, curve="normal")
    assert phi.last is not None
    for silence in (500, 1000, 1200, 1400, 1700):
        later = 0.5 * math.erfc((silence - 1000) / (100 * math.sqrt(2)))
        assert phi.phi(phi.last + silence * MS) == pytest.approx(-math.log10(later))


@given(
    intervals=st.lists(st.integers(0, 10**7), min_size=1, max_size=60),
    window=st.integers(2, 20),
)
def test_mean_and_deviation_are_of_the_last_intervals(intervals: list[int], window: int) -> None:
    phi = watch(*intervals, window=window, min_deviation=1, first_estimate=4000)
    kept = [3000, 5000, *intervals][-window:]
    assert phi.samples == len(kept)
    assert phi.mean == pytest.approx(np.mean(kept))
    assert phi.deviation == pytest.approx(max(1.0, np.std(kept)))


@given(
    intervals=st.lists(st.integers(0, 10**7), max_size=20),
    threshold=st.floats(0.01, 400),
    pause=st.integers(0, 10**7),
    curve=st.sampled_from(sorted(CURVES)),
)
def test_suspicion_begins_at_the_very_microsecond(
    intervals: list[int], threshold: float, pause: int, curve: str
) -> None:
    phi = watch(*intervals, pause=pause, curve=curve)
    at = phi.suspect_at(threshold)
    assert at is not None
    assert phi.last is not None
    assert phi.phi(at) >= threshold
    assert at == phi.last or phi.phi(at - 1) < threshold


def test_phi_rises_in_silence_and_a_beat_ends_it() -> None:
    phi = watch(*[100 * MS] * 20, min_deviation=10 * MS, first_estimate=100 * MS)
    levels = [phi.phi(2_000_000 + silence * MS) for silence in range(0, 100_000, 50)]
    assert levels == sorted(levels)
    assert levels[0] == pytest.approx(0, abs=1e-9)
    assert 1e6 < levels[-1] < math.inf
    phi.beat(102_000_000)
    assert phi.phi(102_000_000) < 0.5


def test_a_very_regular_peer_is_not_suspected_for_a_small_delay() -> None:
    phi = watch(*[100 * MS] * 500, min_deviation=25 * MS)
    assert phi.deviation == 25 * MS
    assert phi.phi(phi.last + 130 * MS) < 1.5


def test_a_pause_is_in_order() -> None:
    plain, patient = (
        watch(*[100 * MS] * 250, min_deviation=25 * MS, pause=pause) for pause in (0, 300 * MS)
    )
    assert plain.last is not None
    assert patient.phi(plain.last + 500 * MS) == plain.phi(plain.last + 200 * MS)


def test_the_first_estimate_stands_in_until_there_are_intervals() -> None:
    phi = Phi(first_estimate=100 * MS, min_deviation=1)
    assert phi.phi(10**12) == 0.0
    assert phi.suspect_at(8) is None
    phi.beat(0)
    assert (phi.mean, phi.deviation) == (100 * MS, 25 * MS)
    assert phi.phi(100 * MS) == pytest.approx(0.3, abs=0.01)
    assert phi.phi(300 * MS) > 8


def test_one_that_never_beats_is_suspected_and_its_first_beat_is_no_interval() -> None:
    phi = Phi(first_estimate=100 * MS, min_deviation=1)
    phi.start(0)
    assert phi.phi(10**7) > 100
    phi.beat(10**7)
    assert phi.samples == 2
    phi.beat(10**7 + 100 * MS)
    assert phi.samples == 3


def test_a_clock_that_goes_back_makes_no_interval_below_nothing() -> None:
    phi = watch(100 * MS)
    before = phi.last
    phi.beat(50 * MS)
    assert phi.last == before
    assert phi.phi(0) >= 0


@pytest.mark.parametrize(
    "settings",
    [{"window": 1}, {"min_deviation": 0}, {"pause": -1}, {"first_estimate": 0}, {"curve": "flat"}],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="phi: "):
        Phi(**settings)
