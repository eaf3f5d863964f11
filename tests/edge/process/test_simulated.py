"""Simulated events follow from their numbers, however they are cut."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.edge.process.event_input import Simulated


@given(st.floats(0.5, 5e5), st.integers(0, 10**6), st.integers(0, 5_000))
def test_as_many_events_are_before_a_time_as_have_earlier_ones(
    rate: float, after: int, number: int
) -> None:
    simulated = Simulated("s1", 1_000, rate)
    times, _, _ = simulated.events(0, number)
    time = 1_000 + after
    inside = int((times < time).sum())
    assert simulated.before(time) == inside or simulated.before(time) >= number == inside
    assert list(times[:1]) == [simulated.time(0)][: len(times)]


@given(st.integers(0, 200_000), st.integers(0, 1_000), st.integers(0, 1_000))
def test_values_do_not_depend_on_how_they_are_cut(first: int, one: int, two: int) -> None:
    simulated = Simulated("s1", 0, 1_000, seed=3, keys=4)
    whole = simulated.events(first, first + one + two)
    left = simulated.events(first, first + one)
    right = simulated.events(first + one, first + one + two)
    assert np.array_equal(whole[0], np.concatenate([left[0], right[0]]))
    assert np.array_equal(whole[1], np.concatenate([left[1], right[1]]))
    assert whole[2] == (left[2] or []) + (right[2] or [])


def test_sensors_and_seeds_differ() -> None:
    one = Simulated("s1", 0, 1_000).events(0, 50)[1]
    assert not np.array_equal(one, Simulated("s2", 0, 1_000).events(0, 50)[1])
    assert not np.array_equal(one, Simulated("s1", 0, 1_000, seed=1).events(0, 50)[1])
