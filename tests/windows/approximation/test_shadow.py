"""A shadow's report against what the two windows answer one by one."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgumentError, InvalidValueError
from holdfast.windows import Amta, Monoid, Policy
from holdfast.windows import monoids as m
from holdfast.windows.approximation import (
    ApproximateWindow,
    Method,
    Shadow,
    ShadowReport,
    block_maxima,
    hops,
    max_error,
    max_leaves,
)
from holdfast.windows.approximation.shadow import Course
from holdfast.windows.policies import before_max, hopping, last


def noise(length: int, seed: int = 3, mean: float = 50.0, spread: float = 5.0) -> list[float]:
    random = Random(seed)
    return [random.gauss(mean, spread) for _ in range(length)]


def shadowed(
    monoid: Monoid[Any, Any, Any], method: Method, values: Any, size: int, value: Any = None
) -> ShadowReport:
    shadow = Shadow(monoid, method, last(size), value=value)
    shadow.feed(values)
    return shadow.report()


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.integers(1, 1_000), min_size=1, max_size=120),
    size=st.integers(1, 40),
    limit=st.integers(3, 12),
)
def test_a_report_is_what_the_windows_answer_one_by_one(
    values: list[int], size: int, limit: int
) -> None:
    report = shadowed(m.sum, max_leaves(limit), values, size)
    exact = [sum(values[max(0, i + 1 - size) : i + 1]) for i in range(len(values))]
    window = ApproximateWindow(m.sum, max_leaves(limit))
    answers, buckets = [], []
    for value in values:
        window.insert(value)
        window.slide(last(size))
        answers.append(window.result())
        buckets.append(window.buckets)
    errors = sorted(abs(a - e) / e for a, e in zip(answers, exact, strict=True))
    assert report.updates == len(values)
    assert report.exact == errors.count(0.0)
    for part, error in report.errors.items():
        assert error == errors[math.ceil(part * len(errors)) - 1]
    assert report.largest_difference == max(abs(a - e) for a, e in zip(answers, exact, strict=True))
    assert report.footprint == window.created / len(values)
    assert (report.buckets, report.buckets_peak) == (buckets[-1], max(buckets))
    assert (report.leaves, report.leaves_peak) == (min(size, len(values)),) * 2
    assert report.not_guaranteed is None


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=40, max_size=300),
    size=st.integers(2, 60),
    absolute=st.floats(0.1, 1e7),
)
def test_an_absolute_bound_is_always_guaranteed_and_never_exceeded(
    values: list[float], size: int, absolute: float
) -> None:
    report = shadowed(m.sum, max_error(absolute=absolute), values, size)
    assert (report.not_guaranteed, report.exceeded, report.broken) == (0, 0, 0)
    assert report.largest_difference is not None
    assert report.largest_difference <= absolute * (1 + 1e-9) + 1e-6


@pytest.mark.parametrize("monoid", [m.sum, m.mean, m.count], ids=lambda monoid: monoid.name)
def test_where_answers_fall_out_of_bounds_the_guarantee_has_said_so(
    monoid: Monoid[Any, Any, Any],
) -> None:
    falling = [1_000 - 900 * i / 6_000 for i in range(4_000)] + [1.0] * 2_000
    report = shadowed(monoid, max_error("10%"), falling, 500)
    assert report.broken == 0
    assert report.exceeded is not None
    assert report.not_guaranteed is not None
    assert report.exceeded <= report.not_guaranteed
    if monoid is m.sum:
        assert report.exceeded > 0


def test_a_mean_is_judged_by_its_own_error_not_by_that_of_its_sum() -> None:
    # The window has lost a third of its updates; the mean of the rest is the same.
    shadow = Shadow(m.mean, [max_error("10%"), max_leaves(3)], last(100))
    shadow.feed([7.0] * 1_000)
    report = shadow.report()
    assert report.exact == 1_000
    assert report.exceeded == 0
    assert report.not_guaranteed > 0
    assert Shadow(m.sum, max_error("10%"), last(100)).report().bound == 0.1


def test_a_mean_among_others_is_judged_by_its_own_error_too() -> None:
    both = m.product(mean=m.mean, top=m.max)
    shadow = Shadow(both, [max_error("10%"), max_leaves(5)], last(100), value="mean")
    shadow.feed([7.0] * 1_000)
    report = shadow.report()
    assert report.exact == 1_000
    assert report.broken == 0
    assert 0 <= report.exceeded <= report.not_guaranteed


def test_a_sum_that_max_leaves_has_made_too_coarse_is_seen_to_exceed_its_bound() -> None:
    shadow = Shadow(m.sum, [max_error("1%"), max_leaves(5)], last(100))
    shadow.feed([7.0] * 1_000)
    report = shadow.report()
    assert 0 < report.exceeded <= report.not_guaranteed
    assert report.broken == 0


def test_steady_state_begins_a_window_after_the_first_eviction() -> None:
    report = shadowed(m.sum, max_leaves(10), range(1, 1_001), 100)
    assert report.settled_at == 201
    assert report.steady_footprint == pytest.approx(0.1, rel=0.1)
    assert report.footprint > report.steady_footprint
    short = shadowed(m.sum, max_leaves(10), range(1, 202), 100)
    assert short.steady_footprint is None
    assert "not reached" in str(short)


def test_steady_state_counts_from_just_after_it_has_begun() -> None:
    shadow = Shadow(m.sum, max_leaves(10), last(100))
    shadow.feed(range(1, 202))
    before = shadow.window.created
    shadow.feed(range(300))
    report = shadow.report()
    assert report.steady_created == shadow.window.created - before
    assert report.steady_footprint == report.steady_created / 300


def test_methods_that_learn_settle_when_they_have() -> None:
    hop = Shadow(m.sum, hops(), hopping(30, 10))
    hop.feed(range(1, 1_001))
    # The first eviction is at update 31, the 30th 290 later; 21 updates are then in the window.
    assert hop.report().settled_at == 321 + 21
    assert hop.report().exact == 1_000
    assert hop.report().steady_footprint < 0.5
    peaks = Shadow(m.max, block_maxima(20), last(50))
    peaks.feed(noise(1_000))
    assert peaks.report().settled_at == 600 + 50


def test_rounding_is_no_error() -> None:
    # Two trees of other shapes over the same updates differ in their last bits.
    report = shadowed(m.variance, max_leaves(1_000), noise(3_000), 200)
    assert report.exact == report.updates
    assert report.curve == ()


def test_answers_that_are_not_numbers_are_equal_or_not() -> None:
    report = shadowed(m.collect, max_leaves(4), range(100), 10)
    assert report.errors == {}
    assert report.largest_difference is None
    assert report.curve == ()
    assert 0 < report.exact < 100
    assert "not numbers" in str(report)


def test_a_field_of_a_record_is_read_by_name_or_by_a_function() -> None:
    both = m.product(mean=m.mean, top=m.max)
    values = noise(2_000)
    alone = shadowed(m.max, max_leaves(10), values, 200)
    for value in ("top", lambda record: record.top):
        report = shadowed(both, max_leaves(10), values, 200, value=value)
        assert (report.exact, report.errors) == (alone.exact, alone.errors)
    whole = shadowed(both, max_leaves(10), values, 200)
    assert whole.errors == {}


@pytest.mark.parametrize(
    ("method", "bound"),
    [
        (max_error("5%"), 0.05),
        (max_error(absolute=3), None),
        (max_error("5%", of="count"), None),
        (max_leaves(10), None),
    ],
    ids=str,
)
def test_only_a_relative_bound_of_the_answer_is_told(method: Method, bound: float | None) -> None:
    assert shadowed(m.sum, method, [1.0], 5).bound == bound


@pytest.mark.parametrize(
    ("values", "error"),
    [([0.0] * 9, 0.0), ([math.nan] * 9, 0.0), ([math.inf] * 9, 0.0), ([10**400] * 9, None)],
)
def test_numbers_without_a_quotient(values: list[Any], error: float | None) -> None:
    report = shadowed(m.sum, max_leaves(3), values, 4)
    assert report.updates == 9
    if error is not None:
        assert report.errors[1.0] == error


def test_an_exact_zero_has_no_relative_error_but_infinity() -> None:
    report = shadowed(m.sum, max_leaves(3), [1, -1] * 20, 6)
    assert report.errors[1.0] == math.inf
    assert report.largest_difference == 1


def test_the_curve_ends_with_the_largest_error_and_starts_above_the_exact_share() -> None:
    report = shadowed(m.sum, max_leaves(8), noise(5_000), 300)
    assert len(report.curve) <= 1_000
    assert report.curve[-1] == (report.errors[1.0], 1.0)
    assert report.curve[0][1] == pytest.approx(report.exact_share + 1 / report.updates)
    assert all(a <= b for a, b in pairwise(report.curve))


@given(length=st.integers(0, 300), most=st.integers(2, 20))
def test_a_course_keeps_few_points_and_the_ends(length: int, most: int) -> None:
    course = Course(most)
    for update in range(1, length + 1):
        course.note(update, 2 * update, 3 * update)
    points = course.points()
    assert len(points) <= most + 1
    assert all(point == (point[0], 2 * point[0], 3 * point[0]) for point in points)
    if length:
        assert (points[0][0], points[-1][0]) == (1, length)
    assert all(a < b for a, b in pairwise(points))


def test_an_empty_report_can_be_read() -> None:
    report = Shadow(m.mean, max_error("1%"), last(10)).report()
    assert (report.updates, report.exact_share, report.footprint) == (0, 1.0, 0.0)
    assert "0 (100 %)" in str(report)


def test_what_a_report_says() -> None:
    text = str(shadowed(m.mean, max_error("1%"), noise(3_000), 500))
    for words in (
        "mean, max_error(1%, confidence=0.95)",
        "3,000",
        "99.9 % of answers",
        "steady state",
        "not guaranteed",
    ):
        assert words in text


def test_policies_other_than_last() -> None:
    shadow = Shadow(m.max, max_leaves(20), before_max())
    shadow.feed(noise(2_000))
    report = shadow.report()
    assert report.exact == report.updates
    assert report.buckets_peak <= 20


def test_a_refused_value_changes_neither_window() -> None:
    shadow = Shadow(m.sum, max_leaves(5), last(10))
    shadow.feed([1, 2, 3])
    with pytest.raises(InvalidValueError):
        shadow.insert("four")
    assert len(shadow.window) == len(shadow.exact) == 3
    assert shadow.report().updates == 3


def test_mistakes() -> None:
    with pytest.raises(InvalidArgumentError, match="value is 5; give a function"):
        Shadow(m.sum, max_leaves(5), last(10), value=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="policy"):
        Shadow(m.sum, max_leaves(5), 10)  # type: ignore[arg-type]


def test_the_exact_window_is_an_amta() -> None:
    assert isinstance(Shadow(m.sum, max_leaves(5), last(10)).exact, Amta)


@pytest.mark.parametrize(
    ("monoid", "method"),
    [(m.sum, max_error(absolute=20)), (m.max, block_maxima(4, confidence=0.5))],
    ids=["sum", "max"],
)
def test_no_policy_breaks_a_guarantee(monoid: Any, method: Any) -> None:
    """The shadow itself finds none of the answers outside that are said to be within."""
    random = Random(2)
    worth = Policy(eviction_invariant=lambda candidate, _after, _before: candidate.value <= 6)
    for policy in (hopping(150, 10), last(60), worth):
        shadow = Shadow(monoid, method, policy)
        shadow.feed(random.randrange(10) for _ in range(2_000))
        report = shadow.report()
        assert report.broken == 0
        assert report.not_guaranteed is not None
        assert report.exceeded is not None
        assert report.exceeded <= report.not_guaranteed
        if monoid is m.sum:
            assert report.not_guaranteed > 1_000 if policy is worth else report.not_guaranteed == 0
