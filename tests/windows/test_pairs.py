"""Pairs in memory: many forks alive at once. The rest is tested through the windows."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from holdfast.windows import Amta
from tests.windows.counting import SPAN
from tests.windows.tracing import lines_executed

AnyAmta = Amta[Any, Any, Any]


def slide(window: AnyAmta, steps: int) -> None:
    for _ in range(steps):
        window.insert(window.position)
        window.evict()


def family(count: int, *, chained: bool) -> list[AnyAmta]:
    """A window of 100 and its forks, all of the first one or each of the one before."""
    windows: list[AnyAmta] = [Amta(SPAN)]
    for number in range(100):
        windows[0].insert(number)
    for _ in range(count):
        windows.append(windows[-1 if chained else 0].fork())
    return windows


@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize("which", [0, -1])
def test_any_number_of_forks_may_live(chained: bool, which: int) -> None:
    windows = family(1500, chained=chained)
    slide(windows[which], 130)
    assert windows[which].result() == (130, 229)
    for other in windows[1:-1:250]:
        assert other.result() == (0, 99)
        other.evict(99)
        assert other.result() == (99, 99)


@pytest.mark.parametrize(("chained", "per_fork"), [(True, 40), (False, 4)])
def test_a_step_costs_no_more_than_a_few_lines_for_each_living_fork(
    chained: bool, per_fork: int
) -> None:
    for which in (0, -1):
        few, many = family(20, chained=chained), family(220, chained=chained)
        slide(few[which], 70)
        slide(many[which], 70)
        spent = [lines_executed(partial(slide, each[which], 1)) for each in (few, many)]
        assert spent[1] - spent[0] <= 200 * per_fork


@pytest.mark.parametrize("chained", [True, False])
def test_garbage_is_collected_once_the_fork_that_needs_it_has_moved_on_or_gone(
    chained: bool,
) -> None:
    windows = family(3, chained=chained)
    base, *forks = windows
    slide(base, 500)
    assert base.pairs.held() >= 500, "the forks stand at the first update"  # type: ignore[attr-defined]
    forks[0].evict(60)
    forks[1].drop()
    forks[2].drop()
    slide(base, 500)
    assert 1000 < base.pairs.held() < 1050  # type: ignore[attr-defined]
    assert forks[0].result() == (60, 99)
    forks[0].drop()
    slide(base, 1000)
    assert base.pairs.held() <= 101  # type: ignore[attr-defined]
    assert base.result() == (2000, 2099)
