"""DABA: the constant worst case, counted for every operation."""

from __future__ import annotations

from random import Random

import pytest

from holdfast.windows import HOLE, Daba
from holdfast.windows.policies import last
from tests.windows.counting import SPAN, SUM, Counted
from tests.windows.invariants import assert_daba
from tests.windows.tracing import lines_executed

MOST = {"insert": 4, "evict": 3, "result": 1, "rest": 2}
"""The worst number of combines of each operation; each is reached."""


@pytest.mark.parametrize("seed", range(4))
def test_no_operation_ever_combines_more_than_the_documented_worst(seed: int) -> None:
    rng = Random(seed)
    counted = Counted(SPAN)
    window = Daba(counted.monoid)
    worst = dict.fromkeys(MOST, 0)
    oldest = number = 0
    for _ in range(200):
        inserting = rng.choice([0.1, 0.5, 0.5, 0.9])
        for _ in range(100):
            if rng.random() < inserting or oldest == number:
                operation = "insert"
                window.insert(number)
                number += 1
            else:
                operation = "evict"
                window.evict()
                oldest += 1
            worst[operation] = max(worst[operation], counted.spent())
            assert window.result() == ((oldest, number - 1) if oldest < number else ())
            worst["result"] = max(worst["result"], counted.spent())
            if oldest < number:
                assert window.oldest() == (oldest, oldest)
                window.rest()
                worst["rest"] = max(worst["rest"], counted.spent())
    assert worst == MOST


def test_no_operation_executes_more_than_a_constant_number_of_lines() -> None:
    window = Daba(SUM)
    most = max(lines_executed(lambda: window.insert(1)) for _ in range(3000))
    most = max(most, *(lines_executed(window.evict) for _ in range(3000)))
    assert len(window) == 0
    assert most <= 100


def test_the_structure_is_right_through_growing_and_shrinking() -> None:
    window = Daba(SPAN)
    number = 0
    for target in (1, 2, 40, 3, 70, 0, 9, 1, 33):
        while len(window) < target:
            window.insert(number)
            number += 1
            assert_daba(window)
        while len(window) > target:
            window.evict()
            assert_daba(window)


def test_looking_one_eviction_ahead_changes_nothing() -> None:
    window = Daba(SPAN)
    for number in range(50):
        window.insert(number)
        before = window.result()
        assert window.rest() == ((1, number) if number else HOLE)
        assert window.result() == before
    assert_daba(window)


def test_a_constant_window_costs_at_most_eight_combines_per_slide() -> None:
    counted = Counted(SPAN)
    window = Daba(counted.monoid)
    window.roll(range(500), last(500))
    counted.spent()
    for number in range(500, 3000):
        assert window.roll([number], last(500)) == [(number - 499, number)]
        assert counted.spent() <= 8


def test_a_window_of_a_million_can_be_dropped() -> None:
    window = Daba(SUM)
    for _ in range(10**6):
        window.insert(1)
    window.evict()
    assert window.result() == 10**6 - 1
    del window
