"""The exact answers of the scenarios against exact windows."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.approximate.scenarios import HOPS, Scenario, average, hopping, peak, rolling_max
from benchmarks.approximate.streams import server_memory
from holdfast.windows import Amta

UPDATES = 3_000


@pytest.mark.parametrize(
    "scenario",
    [
        average(200, UPDATES),
        peak(200, UPDATES),
        *(hopping(90, UPDATES, hop) for hop in HOPS.values()),
    ],
)
def test_exact_windows_answer_what_numpy_does(scenario: Scenario) -> None:
    values = server_memory(UPDATES)
    window = Amta(scenario.monoid)
    answers = []
    for updates, value in enumerate(values.tolist(), 1):
        window.insert(value)
        scenario.before_slide(updates)
        window.slide(scenario.policy)
        answers.append(window.result())
    np.testing.assert_array_equal(answers, scenario.exact(values))


def test_means_of_floats_are_added_up_in_more_than_their_precision() -> None:
    values = np.random.default_rng(1).normal(0, 1e6, UPDATES)
    exact = average(100, UPDATES).exact(values)
    direct = [np.mean(values[max(0, i - 99) : i + 1]) for i in range(UPDATES)]
    np.testing.assert_allclose(exact, direct, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("window", [1, 2, 7, 50, 60])
def test_rolling_max(window: int) -> None:
    values = np.random.default_rng(2).integers(0, 100, 50)
    expected = [max(values[max(0, i - window + 1) : i + 1]) for i in range(50)]
    assert rolling_max(values, window).tolist() == expected


def test_hops_settle_a_window_after_the_thirtieth() -> None:
    scenario = hopping(90, UPDATES, HOPS["constant"])
    # The first at update 91, then one every 30.
    assert scenario.settled == 91 + 29 * 30 + 90
