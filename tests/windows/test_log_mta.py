"""Log MTA: worked examples, counted costs, garbage."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log2
from random import Random

import pytest

from holdfast.windows import HOLE, LogMta, Part, Policy
from holdfast.windows.policies import last, two_argument
from tests.windows.counting import CONCATENATION, PEAK, SPAN, SUM, Counted, filled
from tests.windows.invariants import assert_log_mta
from tests.windows.tracing import lines_executed


def test_figure_4_1() -> None:
    window = filled(LogMta(SUM), [1, 2, 1, 2, 1, 2])
    assert window.forest() == [[(1, 2)] * 3, [(3, 3), (3, HOLE)], [(6, 3)]]
    assert window.result() == 9


def test_a_new_root_keeps_the_old_one() -> None:
    window = filled(LogMta(CONCATENATION), "abc")
    assert window.forest() == [[("a", "b"), ("c", HOLE)], [("ab", "c")]]
    assert window.result() == "abc"


def span_of_four(asked: list[int]) -> Policy:
    def rule(total: Part, old: Part) -> bool:
        asked.append(old.value)
        return total.value - old.value >= 4

    return two_argument(rule)


@pytest.mark.parametrize("passed", [0, 1, 2, 3])
def test_figure_4_2(passed: int) -> None:
    """Timestamp 8 makes all others leave in three questions, one per level from the root down."""
    window = filled(LogMta(PEAK), [1, 1, 2, 2, 3, 3, 4])
    window.evict(passed)
    window.insert(8)
    assert window.height == 3
    asked: list[int] = []
    assert window.slide(span_of_four(asked)) == 7 - passed
    assert asked == [2, 3, 4]
    assert window.forest() == [[(HOLE, 8)]]
    assert window.result() == 8


def test_the_policy_is_asked_at_most_once_per_level() -> None:
    rng = Random(5)
    for _ in range(100):
        window = filled(LogMta(SPAN), range(rng.randrange(1, 300)))
        window.evict(rng.randrange(len(window)))
        asked = 0
        cut = window.result()[0] + rng.randrange(len(window))

        def rule(_total: Part, old: Part, cut: int = cut) -> bool:
            nonlocal asked
            asked += 1
            return old.value[1] < cut

        window.slide(two_argument(rule))
        assert window.result()[0] == cut
        assert asked <= log2(300) + 2


def test_the_height_follows_the_length_wherever_the_window_lies() -> None:
    window = LogMta(SPAN)
    for number in range(5000):
        window.insert(number)
        if len(window) > 5:
            window.evict()
        assert window.height <= log2(len(window)) + 2
    assert_log_mta(window)


@pytest.mark.parametrize("power", [4, 8, 12])
def test_every_operation_costs_logarithmically_many_combines(power: int) -> None:
    counted = Counted(SPAN)
    size = 2**power
    window = filled(LogMta(counted.monoid), range(size))
    counted.spent()
    for number in range(size, 3 * size):
        window.insert(number)
        assert counted.spent() <= power + 3
        window.evict()
        assert counted.spent() <= power + 2
        assert window.result() == (number - size + 1, number)
        assert counted.spent() == 0


class TestBulkEviction:
    SIZE = 2**13

    @pytest.mark.parametrize(
        "count", [0, 1, 2, 1000, 2**12 - 1, 2**12, 2**12 + 1, 2**13 - 1, 2**13]
    )
    def test_by_count_has_no_loop_over_it(self, count: int) -> None:
        counted = Counted(SPAN)
        window = filled(LogMta(counted.monoid), range(self.SIZE))
        counted.spent()
        assert lines_executed(partial(window.evict, count)) < 500
        assert counted.spent() <= 15
        assert window.result() == ((count, self.SIZE - 1) if count < self.SIZE else ())

    @pytest.mark.parametrize("count", [0, 1, 1000, 2**12 - 1, 2**12, 2**12 + 1, 2**13 - 1])
    @pytest.mark.parametrize(
        "form",
        [
            lambda cut: two_argument(lambda _total, old: old.value[1] < cut),
            lambda cut: Policy(window_invariant=lambda window: window.value[0] >= cut),
        ],
        ids=["two arguments", "window invariant"],
    )
    def test_by_policy_has_no_loop_over_it(self, count: int, form: Callable[[int], Policy]) -> None:
        counted = Counted(SPAN)
        window = filled(LogMta(counted.monoid), range(self.SIZE))
        counted.spent()
        assert lines_executed(partial(window.slide, form(count))) < 2000
        assert counted.spent() <= 5 * 13
        assert window.result() == (count, self.SIZE - 1)


@pytest.mark.parametrize("seed", range(4))
def test_the_structure_is_right_after_every_step_of_a_random_run(seed: int) -> None:
    rng = Random(seed)
    window = LogMta(SPAN)
    number = 0
    for _ in range(250):
        step = rng.choice(["burst", "insert", "evict", "bulk"])
        if step in ("burst", "insert"):
            for _ in range(1 if step == "insert" else rng.randrange(60)):
                window.insert(number)
                number += 1
        else:
            most = len(window) if step == "bulk" else min(3, len(window))
            window.evict(rng.randrange(most + 1))
        assert_log_mta(window)


def test_what_was_evicted_is_collected_little_by_little() -> None:
    window = filled(LogMta(SPAN), range(2**12))
    window.evict(2**12 - 10)
    assert window.held() > 2**12
    for number in range(2**12, 2**12 + 2**10):
        window.insert(number)
        window.evict()
    assert window.held() <= 2 * len(window) + 20
    window.evict(10)
    assert window.slide(last(1)) == 0
    for number in range(5200, 5400):
        window.insert(number)
    assert window.held() <= 2 * len(window) + 20
    assert window.result() == (5200, 5399)
