"""Batches as large as their time allows, whatever the estimate of their work is worth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tenants.process.engine.fairness import LEAST_SHARE, LONGER, SMALL_MICROS, Pace

SHARED_MICROS = 100_000.0


def run(pace: Pace, empty: float, seconds_per_micro: float, batches: int) -> list[float]:
    """Full batches of a machine; answers how many times as long as an empty one they take."""
    found = []
    for _ in range(batches):
        micros = SHARED_MICROS * pace.share
        seconds = empty + micros * seconds_per_micro
        pace.ran(micros, seconds, was_full=True)
        found.append(seconds / empty)
    return found


@given(st.floats(0.05, 2), st.floats(1e-7, 2e-4))
def test_full_batches_come_to_take_little_longer_than_empty_ones(
    empty: float, seconds_per_micro: float
) -> None:
    pace = Pace()
    pace.ran(100.0, empty, was_full=False)
    last = run(pace, empty, seconds_per_micro, 200)[-20:]
    if pace.share > LEAST_SHARE:
        assert sum(last) / len(last) <= LONGER * 1.05
    # Not smaller than need be.
    least = empty + SHARED_MICROS * seconds_per_micro
    assert pace.share == 1.0 or least > empty * LONGER


def test_they_grow_again_when_the_machine_is_free() -> None:
    pace = Pace()
    pace.ran(100.0, 0.1, was_full=False)
    run(pace, 0.1, 1e-4, 50)
    assert pace.share < 0.1
    run(pace, 0.1, 1e-7, 50)
    assert pace.share == 1.0


def test_an_empty_batch_that_was_slow_once_changes_little() -> None:
    pace = Pace()
    for _ in range(20):
        pace.ran(SMALL_MICROS, 0.1, was_full=False)
    pace.ran(SMALL_MICROS, 10.0, was_full=False)
    assert pace.empty == pytest.approx(0.1, rel=1.1)


def test_without_an_empty_batch_to_compare_with_nothing_changes() -> None:
    pace = Pace()
    pace.ran(SHARED_MICROS, 100.0, was_full=True)
    assert pace.share == 1.0
