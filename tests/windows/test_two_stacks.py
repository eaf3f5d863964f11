"""Two-Stacks: counted costs."""

from __future__ import annotations

import pytest

from holdfast.windows import TwoStacks
from holdfast.windows.policies import last
from tests.windows.counting import SPAN, Counted
from tests.windows.invariants import assert_two_stacks


@pytest.mark.parametrize("size", [1, 2, 3, 64, 1000])
def test_a_slide_costs_at_most_three_combines_on_average(size: int) -> None:
    counted = Counted(SPAN)
    window = TwoStacks(counted.monoid)
    window.roll(range(size), last(size))
    counted.spent()
    slides = 10 * size
    results = window.roll(range(size, size + slides), last(size))
    assert counted.spent() <= 3 * slides
    assert results == [(number - size + 1, number) for number in range(size, size + slides)]


def test_bulk_eviction_combines_nothing_that_it_throws_away() -> None:
    counted = Counted(SPAN)
    window = TwoStacks(counted.monoid)
    for number in range(100):
        window.insert(number)
    window.evict(1)
    for number in range(100, 150):
        window.insert(number)
    counted.spent()
    window.evict(89)
    assert counted.spent() == 0, "the front alone is long enough"
    window.evict(50)
    assert counted.spent() == 9, "of 50 in the back, 40 go and 10 are turned over"
    assert window.result() == (140, 149)
    assert_two_stacks(window)
    counted.spent()
    window.evict(10)
    assert counted.spent() == 0
    assert window.result() == ()
