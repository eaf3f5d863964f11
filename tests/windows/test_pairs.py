"""Pairs in memory: what is held and for how long, and many forks alive at once."""

from __future__ import annotations

from functools import partial
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import pytest

from holdfast.windows import Amta
from holdfast.windows.pairs import MemoryPairs
from tests.windows.counting import CONCATENATION, SPAN, filled
from tests.windows.invariants import assert_amta
from tests.windows.tracing import lines_executed

AnyAmta = Amta[Any, Any, Any]


def slide(window: AnyAmta, steps: int) -> None:
    for _ in range(steps):
        window.insert(window.position)
        window.evict()


def family(count: int, *, chained: bool) -> list[AnyAmta]:
    """A window of 100 and its forks, all of the first one or each of the one before."""
    windows: list[AnyAmta] = [filled(Amta(SPAN), range(100))]
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


# Garbage


def held(window: AnyAmta) -> int:
    pairs = window.pairs
    assert isinstance(pairs, MemoryPairs)
    return pairs.held()


def test_a_sliding_window_holds_no_more_pairs_than_leaves() -> None:
    window = filled(Amta(SPAN), range(1000))
    for _ in range(50):
        slide(window, 100)
        assert held(window) <= len(window) + 20


def test_pairs_of_a_bulk_eviction_are_collected_little_by_little() -> None:
    window = filled(Amta(SPAN), range(2**14))
    window.evict(2**14 - 10)
    assert held(window) > 2**14 - 100
    slide(window, 2**12)
    assert held(window) <= len(window) + 20


def test_an_emptied_window_is_collected_while_it_refills() -> None:
    window = filled(Amta(SPAN), range(2**12))
    window.evict(2**12)
    for number in range(2**12, 2**13):
        window.insert(number)
    assert held(window) <= len(window) + 20


def test_collection_can_be_had_at_once() -> None:
    pairs: MemoryPairs[Any] = MemoryPairs()
    window = filled(Amta(SPAN, pairs=pairs), range(1000))
    window.evict(990)
    pairs.collect()
    assert pairs.held() <= len(window) + 20
    assert_amta(window)


def test_what_a_fork_may_read_is_kept_until_it_is_dropped() -> None:
    base = filled(Amta(SPAN), range(2000))
    fork = base.fork()
    slide(base, 3000)
    assert held(base) >= 4000
    assert_amta(fork)
    fork.drop()
    slide(base, 1000)
    assert held(base) <= len(base) + 20
    assert base.result() == (4000, 5999)


def test_what_a_dropped_base_leaves_is_collected_as_its_fork_slides_past_it() -> None:
    base = filled(Amta(SPAN), range(2000))
    shared = base.pairs
    fork = base.fork()
    slide(base, 100)
    base.drop()
    slide(fork, 3000)
    assert shared.held() == 0  # type: ignore[attr-defined]
    assert held(fork) <= len(fork) + 20
    assert_amta(fork)


@pytest.mark.parametrize(("base_steps", "fork_steps"), [(5, 200), (200, 5), (60, 60)])
def test_a_fork_keeps_its_own_pairs_when_its_base_is_dropped(
    base_steps: int, fork_steps: int
) -> None:
    base = filled(Amta(CONCATENATION), ascii_lowercase)
    fork = base.fork()
    for _ in range(base_steps):
        base.insert("!")
    for place in range(fork_steps):
        fork.insert(ascii_uppercase[place % 26])
    expected = fork.result()
    base.drop()
    assert fork.result() == expected
    assert_amta(fork)
    while len(fork) > 1:
        fork.evict()
        expected = expected[1:]
        assert fork.result() == expected


def test_what_a_base_had_not_yet_collected_is_collected_by_its_fork() -> None:
    base = filled(Amta(SPAN), range(2000))
    base.evict(1900)
    fork = base.fork()
    base.drop()
    assert held(fork) > 1900
    slide(fork, 500)
    assert held(fork) <= len(fork) + 20


def test_the_last_of_several_forks_takes_over_from_a_dropped_base() -> None:
    base = filled(Amta(SPAN), range(300))
    place = base.pairs
    forks = [base.fork() for _ in range(3)]
    grandchild = forks[0].fork()
    base.drop()
    for fork in forks:
        slide(fork, 20)
    forks[0].drop()
    forks[1].drop()
    assert place.held() > 0, "two windows still share it"
    forks[2].drop()
    assert place.held() == 0
    slide(grandchild, 500)
    assert_amta(grandchild)
    assert held(grandchild) <= len(grandchild) + 20


@pytest.mark.parametrize("base_first", [True, False])
def test_nothing_is_held_when_base_and_fork_are_dropped(base_first: bool) -> None:
    base = filled(Amta(SPAN), range(500))
    fork = base.fork()
    slide(fork, 300)
    slide(base, 10)
    places = [base.pairs, fork.pairs]
    for window in [base, fork] if base_first else [fork, base]:
        window.drop()
    assert [place.held() for place in places] == [0, 0]  # type: ignore[attr-defined]
