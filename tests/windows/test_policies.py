"""Slide policies on every algorithm: the ready-made ones, what is refused, what debug reports."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from holdfast.errors import EmptyWindowError, InvalidArgumentError, PolicyNotMonotoneError
from holdfast.windows import Amta, Daba, LogMta, Monoid, Part, Policy, Recalculation, TwoStacks
from holdfast.windows.policies import (
    before_max,
    hopping,
    last,
    time_span,
    two_argument,
    value_bound,
)
from tests.windows.counting import CONCATENATION, PEAK, SUM, Counted, filled

ALGORITHMS = [Recalculation, TwoStacks, Daba, LogMta, Amta]
every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


class SumAndMax(NamedTuple):
    sum: int
    max: int


SUM_AND_MAX: Monoid[int, SumAndMax, SumAndMax] = Monoid(
    "sum and max",
    SumAndMax(0, 0),
    lambda value: SumAndMax(value, value),
    lambda older, newer: SumAndMax(older.sum + newer.sum, max(older.max, newer.max)),
    lambda state: state,
)


class Timed(NamedTuple):
    time: float
    text: str


TIMED: Monoid[Timed, Timed, Timed] = Monoid(
    "timed text",
    Timed(0, ""),
    lambda value: value,
    lambda older, newer: Timed(newer.time, older.text + newer.text),
    lambda state: state,
)


@every_algorithm
def test_the_example_of_section_3_2(algorithm: Any) -> None:
    """Keep the suffix whose sum is at most 10; answer its maximum."""
    at_most_ten = value_bound(10, lambda value: value.sum)
    window = filled(algorithm(SUM_AND_MAX), [2, 2, 3, 3])
    assert window.slide(at_most_ten) == 0
    assert window.result().max == 3
    window.insert(4)
    assert window.slide(at_most_ten) == 2
    assert [state.sum for state in window.leaves()] == [3, 3, 4]
    assert window.result() == SumAndMax(10, 4)


@every_algorithm
def test_last_keeps_the_newest(algorithm: Any) -> None:
    assert algorithm(CONCATENATION).roll("abcde", last(3)) == [
        "a",
        "ab",
        "abc",
        "bcd",
        "cde",
    ]


@every_algorithm
def test_last_with_a_size_that_changes_as_it_runs(algorithm: Any) -> None:
    """An update carries the size from then on: the newest wins."""
    sized: Monoid[Any, Any, Any] = Monoid(
        "sized", (0, ""), lambda value: value, lambda a, b: (b[0], a[1] + b[1]), lambda state: state
    )
    policy = last(lambda window: window.value[0])
    updates = [(2, "a"), (2, "b"), (2, "c"), (4, "d"), (4, "e"), (4, "f"), (1, "g"), (3, "h")]
    results = algorithm(sized).roll(updates, policy)
    assert [text for _, text in results] == ["a", "ab", "bc", "bcd", "bcde", "cdef", "g", "gh"]


@every_algorithm
def test_time_span_keeps_what_is_younger(algorithm: Any) -> None:
    window = algorithm(TIMED)
    updates = [Timed(0, "a"), Timed(1, "b"), Timed(4, "c"), Timed(4, "d"), Timed(5.5, "e")]
    results = window.roll(updates, time_span(4))
    assert [text for _, text in results] == ["a", "ab", "bc", "bcd", "cde"]


@every_algorithm
def test_an_update_after_a_long_silence_leaves_alone(algorithm: Any) -> None:
    window = filled(algorithm(TIMED), [Timed(time / 100, "x") for time in range(100)])
    assert window.roll([Timed(3600, "y")], time_span(60)) == [Timed(3600, "y")]
    assert len(window) == 1


@every_algorithm
def test_before_max_drops_all_that_precedes_the_newest_maximum(algorithm: Any) -> None:
    window = algorithm(PEAK)
    sizes = []
    for value in [5, 3, 4, 5, 1, 2, 9, 9]:
        window.insert(value)
        window.slide(before_max())
        sizes.append(len(window))
    assert sizes == [1, 2, 3, 1, 2, 3, 1, 1]
    assert window.result() == 9


@every_algorithm
def test_hopping_lets_the_oldest_leave_together(algorithm: Any) -> None:
    results = algorithm(CONCATENATION).roll("abcdefghi", hopping(4, 3))
    assert results == ["a", "ab", "abc", "abcd", "de", "def", "defg", "gh", "ghi"]


@every_algorithm
def test_maximum_with_a_cap_takes_the_longer_of_the_two_evictions(algorithm: Any) -> None:
    policy = Policy(
        window_invariant=lambda window: window.size <= 3,
        eviction_invariant=lambda candidate, after, _before: candidate.value <= after.value,
    )
    window = algorithm(PEAK)
    held = []
    for value in [9, 1, 2, 0, 5, 4, 3, 2]:
        window.insert(value)
        window.slide(policy)
        held.append(list(window.leaves()))
    assert held == [[9], [9, 1], [9, 1, 2], [1, 2, 0], [5], [5, 4], [5, 4, 3], [4, 3, 2]]


@every_algorithm
def test_an_update_that_alone_breaks_the_policy_stays_alone(algorithm: Any) -> None:
    window = filled(algorithm(SUM), [1, 2, 3, 50])
    assert window.slide(value_bound(10)) == 3
    assert window.result() == 50
    assert window.slide(value_bound(10)) == 0
    window.insert(1)
    assert window.slide(value_bound(10)) == 1
    assert window.result() == 1


@every_algorithm
def test_an_update_that_alone_breaks_the_policy_goes_if_the_policy_says_so(algorithm: Any) -> None:
    policy = value_bound(10, keep_newest=False)
    window = filled(algorithm(SUM), [1, 2, 3, 50])
    assert window.slide(policy) == 4
    assert len(window) == 0
    assert window.slide(policy) == 0
    assert window.roll([4, 5, 60, 6], policy) == [4, 9, 0, 6]


@every_algorithm
def test_a_policy_that_accepts_no_window_at_all_ends(algorithm: Any) -> None:
    never = Policy(window_invariant=lambda _window: False)
    window = filled(algorithm(CONCATENATION), "abc")
    assert window.slide(never) == 2
    assert window.result() == "c"
    never = Policy(window_invariant=lambda _window: False, keep_newest=False)
    assert window.slide(never) == 1
    assert window.result() == ""


@every_algorithm
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
def test_an_eviction_invariant_that_wants_all_gone_leaves_the_newest(
    algorithm: Any, size: int
) -> None:
    window = filled(algorithm(CONCATENATION), "abcdefgh"[:size])
    assert window.slide(two_argument(lambda _total, _old: True)) == size - 1
    assert window.result() == "abcdefgh"[size - 1]
    assert window.slide(two_argument(lambda _total, _old: True, keep_newest=False)) == 1
    assert window.result() == ""


@every_algorithm
def test_a_window_of_one_is_not_asked_about_what_must_stay(algorithm: Any) -> None:
    def surprised(*_parts: Part) -> bool:
        raise AssertionError("there is nothing that may go")

    window = filled(algorithm(CONCATENATION), "a")
    assert window.slide(Policy(eviction_invariant=surprised)) == 0
    assert algorithm(CONCATENATION).slide(Policy(window_invariant=surprised)) == 0


@every_algorithm
def test_evicting_what_is_not_there_is_refused_and_changes_nothing(algorithm: Any) -> None:
    window = filled(algorithm(CONCATENATION), "abc")
    for count in (4, 100):
        with pytest.raises(EmptyWindowError, match=f"{count} to go but the window holds 3"):
            window.evict(count)
    with pytest.raises(InvalidArgumentError, match="count is -1"):
        window.evict(-1)
    assert (len(window), window.result()) == (3, "abc")
    window.evict(3)
    with pytest.raises(EmptyWindowError, match="1 to go but the window holds 0"):
        window.evict()
    window.evict(0)
    assert (len(window), window.result()) == (0, "")


@every_algorithm
@pytest.mark.parametrize("count", [3.0, 1.0, 0.5, float("nan"), "1", None, np.float64(3)], ids=repr)
def test_evicting_a_number_that_is_no_integer_is_refused_and_changes_nothing(
    algorithm: Any, count: Any
) -> None:
    window = filled(algorithm(CONCATENATION), "abc")
    with pytest.raises(InvalidArgumentError, match=r"evict: .* is no integer"):
        window.evict(count)
    window.insert("d")
    window.evict()
    assert (len(window), window.result()) == (3, "bcd")


@every_algorithm
@pytest.mark.parametrize("number", [np.int64, np.uint8, bool])
def test_any_integer_counts(algorithm: Any, number: Any) -> None:
    window = filled(algorithm(CONCATENATION), "abcdefg")
    window.evict(number(1))
    assert window.slide(last(number(1))) == 5
    window.insert("h")
    assert window.slide(hopping(number(1), number(1))) == 1
    assert (len(window), window.result()) == (1, "h")


@every_algorithm
@pytest.mark.parametrize(
    ("policy", "what"),
    [
        (
            Policy(window_invariant=lambda window: window.size % 2 == 0),
            "window_invariant is not monotone on this window of 4: "
            "it accepts the window without its oldest 0 but not without its oldest 1",
        ),
        (
            two_argument(lambda _total, old: old.size != 1),
            "eviction_invariant is not monotone on this window of 4: "
            "it lets the oldest 1 stay but wants the oldest 2 gone",
        ),
    ],
    ids=["window invariant", "eviction invariant"],
)
def test_debug_mode_reports_a_policy_that_is_not_monotone(
    algorithm: Any, policy: Policy, what: str
) -> None:
    window = filled(algorithm(CONCATENATION), "abcd")
    with pytest.raises(PolicyNotMonotoneError, match=what):
        window.slide(policy, debug=True)
    assert window.result() == "abcd"


@every_algorithm
@pytest.mark.parametrize("debug", [False, True])
def test_a_policy_is_asked_about_the_whole_window_only_if_the_newest_may_go(
    algorithm: Any, debug: bool
) -> None:
    left: list[int] = []

    def eviction_invariant(_candidate: Part, after: Part, _before: Part) -> bool:
        left.append(after.size)
        return True

    for keep_newest in (True, False):
        left.clear()
        policy = Policy(eviction_invariant=eviction_invariant, keep_newest=keep_newest)
        filled(algorithm(CONCATENATION), "abcdefg").slide(policy, debug=debug)
        assert min(left) == keep_newest


@every_algorithm
def test_a_sum_bound_over_negative_values_is_reported_in_debug_mode(algorithm: Any) -> None:
    window = filled(algorithm(SUM), [5, -9, 8])
    with pytest.raises(PolicyNotMonotoneError, match="window_invariant"):
        window.slide(value_bound(6), debug=True)


@every_algorithm
def test_debug_mode_accepts_the_ready_made_policies(algorithm: Any) -> None:
    for policy in (last(3), hopping(4, 2), before_max(), value_bound(9)):
        window = filled(algorithm(SUM), [1, 4, 1, 4, 2, 1, 3])
        plain = filled(algorithm(SUM), [1, 4, 1, 4, 2, 1, 3])
        assert window.slide(policy, debug=True) == plain.slide(policy)


def test_a_rule_over_sizes_combines_nothing() -> None:
    counted = Counted(CONCATENATION)
    part = Part(counted.monoid, 2, "a", "b")
    assert part.size == 2
    assert counted.spent() == 0
    assert (part.value, part.value) == ("ab", "ab")
    assert counted.spent() == 1
    assert repr(part) == "Part(size=2, value='ab')"


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Policy(), "window_invariant, eviction_invariant or both"),
        (lambda: last(0), "size is 0"),
        (lambda: last(2.5), "size: 2.5 is no integer"),
        (lambda: last(float("nan")), "size: nan is no integer"),
        (lambda: hopping(2.5, 1), "size: 2.5 is no integer"),
        (lambda: hopping(3, 1.5), "hop: 1.5 is no integer"),
        (lambda: time_span(0), "length is 0"),
        (lambda: time_span(float("nan")), "length is nan"),
        (lambda: hopping(3, 0), "hop is 0"),
        (lambda: hopping(3, 4), r"between 1 and size \(3\)"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(make: Any, what: str) -> None:
    with pytest.raises(InvalidArgumentError, match=what):
        make()
