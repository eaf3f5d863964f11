"""The clock of a process against hands that are set at will."""

from __future__ import annotations

import time
from itertools import pairwise
from threading import Thread

from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime import adjusted_clock as pure
from holdfast.runtime.clock import Clock

STEPS = st.lists(
    st.tuples(
        st.integers(0, 2_000_000),  # so much time passes
        st.sampled_from([0, 0, 0, 1, -1]) | st.integers(-(10**10), 10**10),  # the wall clock steps
        st.sampled_from([0, 0, 0, 10**6, 10**10]),  # the machine is suspended
    ),
    max_size=60,
)


class Hands:
    """The two clocks of a machine."""

    def __init__(self) -> None:
        self.wall, self.steady = 10**15, 5

    def clock(self, start: int = 0) -> pure.Clock:
        return pure.Clock(lambda: self.wall, lambda: self.steady, start)


@given(STEPS)
def test_it_never_goes_back_nor_behind_and_takes_steps_forward_at_once(
    steps: list[tuple[int, int, int]],
) -> None:
    hands = Hands()
    clock = hands.clock()
    given, steady = clock(), hands.steady
    for passes, step, slept in steps:
        ahead = clock.ahead()
        hands.wall += passes + step + slept
        hands.steady += passes
        last, given = given, clock()
        assert given >= last
        assert given >= hands.wall
        assert clock.ahead() == given - hands.wall
        if given > hands.wall:
            # Nine tenths of the pace, to the microsecond that is lost in rounding.
            assert abs(10 * (given - last) - 9 * passes) <= 20
        if ahead == 0 and step >= 0:
            assert given == hands.wall
    assert hands.steady >= steady


@given(st.integers(1, 10**10), st.lists(st.integers(1, 10**6), min_size=1, max_size=50))
def test_it_catches_up_after_ten_times_the_step(step: int, gaps: list[int]) -> None:
    hands = Hands()
    clock = hands.clock()
    hands.wall -= step
    for gap in gaps:
        before = clock.ahead()
        hands.wall += gap
        hands.steady += gap
        assert before - gap // 10 - 1 <= clock.ahead() <= before
    rest = 10 * clock.ahead() + 10
    hands.wall += rest
    hands.steady += rest
    assert clock.ahead() == 0


def test_many_looks_do_not_slow_it_down() -> None:
    hands = Hands()
    clock = hands.clock()
    first = clock()
    hands.wall -= 10**9
    for _ in range(10_000):
        hands.wall += 1
        hands.steady += 1
        clock()
    assert clock() == first + 9_000


def test_it_begins_where_it_is_told_and_survives_a_steady_clock_that_is_none() -> None:
    hands = Hands()
    clock = hands.clock(start=hands.wall + 500)
    assert clock() == hands.wall + 500
    clock.not_before(hands.wall + 100)
    assert clock.ahead() == 500
    clock.not_before(hands.wall + 900)
    assert clock.ahead() == 900
    hands.steady -= 10**6
    assert clock.ahead() == 900
    assert clock.behind(hands.wall + 7) == -7


def test_threads_see_one_time() -> None:
    clock = Clock()
    assert abs(clock() - time.time() * 1e6) < 1e6
    seen: list[list[int]] = [[] for _ in range(4)]

    def look(found: list[int]) -> None:
        found.extend(clock() for _ in range(2000))

    threads = [Thread(target=look, args=(found,)) for found in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(a <= b for found in seen for a, b in pairwise(found))
