"""False suspicions and detection times, as the benchmark measures them."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.groups.detectors import PhiMesh
from simulator.detector_rates import LINKS, Link, draw_arrivals, measure_rates

PERIOD = 100_000


@pytest.mark.parametrize("name", LINKS)
def test_a_higher_threshold_suspects_less_and_later(name: str) -> None:
    rates = measure_rates(np.random.default_rng(1), LINKS[name], beats=2000)
    wrong = [rate.false_suspicions for rate in rates]
    assert wrong == sorted(wrong, reverse=True)
    detections = [rate.detection for rate in rates]
    assert detections == sorted(detections)
    assert all(rate.detection <= rate.longest_detection < 10 * PERIOD for rate in rates)


def test_the_defaults_suspect_nobody_wrongly_for_jitter_or_a_lost_beat() -> None:
    for name in ("calm", "jittery", "lossy"):
        (rate,) = measure_rates(np.random.default_rng(2), LINKS[name], beats=5000, thresholds=[8.0])
        assert rate.share == 0
        assert rate.longest_detection < 6 * PERIOD


def test_under_the_normal_model_a_threshold_is_wrong_as_often_as_it_says() -> None:
    """Threshold 1 in about 10 % of the intervals, 2 in 1 % (digest, §3.5)."""
    rng = np.random.default_rng(3)
    for threshold, share in ((1.0, 0.1), (2.0, 0.01)):
        mesh = PhiMesh(["p"], PERIOD, threshold, pause=0, min_deviation=1, curve="normal")
        wrong = now = 0
        for interval in rng.normal(PERIOD, PERIOD / 10, 6000).astype(int).tolist():
            now += interval
            wrong += bool(mesh.suspects(now))
            mesh.beat("p", now)
        # What was suspected counts as shorter than it was, so that the rate is a little higher.
        assert share * 0.8 < wrong / 6000 < share * 2


def test_arrivals_keep_their_order_and_lose_their_share() -> None:
    link = Link(delay=2.0, loss=0.1, stalls=0.01, stall=5.0)
    arrivals = draw_arrivals(np.random.default_rng(4), link, 5000, PERIOD)
    assert (np.diff(arrivals) >= 0).all()
    assert len(arrivals) == pytest.approx(4500, abs=100)
    again = draw_arrivals(np.random.default_rng(4), link, 5000, PERIOD)
    assert (arrivals == again).all()
