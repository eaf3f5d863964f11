"""Bounds on the error against exact windows, over streams that an adversary would choose."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import itemgetter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidValueError
from holdfast.windows import Policy
from holdfast.windows import monoids as m
from holdfast.windows.approximation import (
    ApproximateWindow,
    max_error,
    max_leaves,
)
from holdfast.windows.policies import last, time_span, value_bound
from tests.windows.approximation.beside import both
from tests.windows.counting import CONCATENATION

Stream = Sequence[float]


# Streams that an adversary would choose


def adversarial_signs(length: int) -> Stream:
    return [1, 1, -1, -1] * (length // 4)


def zero_mean(length: int) -> Stream:
    random = Random(5)
    return [random.gauss(0, 10) for _ in range(length)]


def trend(length: int) -> Stream:
    random = Random(6)
    return [1_000 - 0.9 * 1_000 * i / length + random.random() for i in range(length)]


def step_down(length: int) -> Stream:
    return [1_000.0] * (length // 2) + [1.0] * (length // 2)


def step_up(length: int) -> Stream:
    return [1.0] * (length // 2) + [1_000.0] * (length // 2)


def crossing_zero(length: int) -> Stream:
    return [math.cos(8 * math.pi * i / length) * 100 for i in range(length)]


def spikes(length: int) -> Stream:
    random = Random(7)
    return [1e9 if random.random() < 0.01 else random.random() for _ in range(length)]


def steady(length: int) -> Stream:
    random = Random(8)
    return [100 + random.random() for _ in range(length)]


STREAMS = [
    adversarial_signs,
    zero_mean,
    trend,
    step_down,
    step_up,
    crossing_zero,
    spikes,
    steady,
]


def breathing(window: Any) -> int:
    """A window size that changes as the window runs."""
    return 20 + int(180 * abs(math.sin(window.value.at / 150)))


BREATHING = last(breathing)
NUMBERED = m.product(at=m.last.over(itemgetter(0)), total=m.sum.over(itemgetter(1)), n=m.count)


def numbered(values: Iterable[Any]) -> list[tuple[int, Any]]:
    return list(enumerate(values))


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("limit", [0.5, 3, 500, 1e6])
def test_an_absolute_bound_is_never_exceeded(stream: Callable[[int], Stream], limit: float) -> None:
    values = stream(1_200)
    slack = 1e-9 * max(map(abs, values))
    for exact, approximate, window in both(m.sum, max_error(absolute=limit), last(100), values):
        assert abs(approximate - exact) <= limit + slack
        guarantee = window.guarantee()
        assert guarantee.holds
        assert abs(approximate - exact) <= guarantee.errors["sum"] + slack <= limit + 2 * slack


@given(
    values=st.lists(st.integers(-5, 5), max_size=120),
    limit=st.integers(1, 12),
    size=st.integers(1, 30),
)
@settings(max_examples=300, deadline=None)
def test_an_absolute_bound_holds_for_any_integers(values: list[int], limit: int, size: int) -> None:
    for exact, approximate, window in both(m.sum, max_error(absolute=limit), last(size), values):
        assert abs(approximate - exact) <= window.guarantee().errors["sum"] <= limit


@pytest.mark.parametrize("stream", STREAMS)
def test_an_absolute_bound_holds_while_the_size_changes(stream: Callable[[int], Stream]) -> None:
    methods = max_error(absolute={"total": 700, "n": 9})
    peak = max(map(abs, stream(1_500)))
    for exact, approximate, _ in both(NUMBERED, methods, BREATHING, numbered(stream(1_500))):
        assert abs(approximate.total - exact.total) <= 700 + 1e-9 * peak
        assert abs(approximate.n - exact.n) <= 9


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("relative", [0.001, 0.02, 0.2])
@pytest.mark.parametrize("policy", [last(100), BREATHING], ids=["last", "breathing"])
def test_a_relative_bound_holds_wherever_it_is_said_to(
    stream: Callable[[int], Stream], relative: float, policy: Policy
) -> None:
    held = 0
    values = stream(1_600)
    slack = 1e-12 * max(map(abs, values))
    for exact, approximate, window in both(NUMBERED, max_error(relative), policy, numbered(values)):
        guarantee = window.guarantee()
        for name in ("total", "n"):
            error = abs(approximate[name] - exact[name])
            assert error <= guarantee.errors[name] + slack
            if guarantee.holds:
                assert error <= relative * abs(exact[name]) + slack
        held += guarantee.holds
    if policy is not BREATHING and stream in (steady, trend, adversarial_signs):
        assert held >= 0.99 * len(values)


@pytest.mark.parametrize("relative", [0.005, 0.01, 0.1])
def test_the_error_of_a_mean_is_that_of_the_mean_itself(relative: float) -> None:
    values = [(-1) ** (i // 7) * 3 + 50 + i % 11 for i in range(9_000)]
    folded = False
    for exact, approximate, window in both(m.mean, max_error(relative), last(2_000), values):
        assert window.guarantee().holds
        assert abs(approximate - exact) <= relative * abs(exact) * (1 + 1e-12)
        folded = folded or window.buckets < len(window) / 2
    assert folded


def test_nothing_folds_while_the_interval_contains_zero_or_there_are_few_results() -> None:
    alternating = [(-1) ** i * (100 + i % 7) for i in range(2_000)]
    for _, _, window in both(m.sum, max_error("10%"), last(200), alternating):
        assert window.buckets == len(window)
    for step, (_, _, window) in enumerate(both(m.count, max_error("50%"), last(1), range(40))):
        assert window.buckets == len(window)
        assert step < 40
    sizes = [w.buckets for _, _, w in both(m.sum, max_error("50%"), last(10), repeat(1.0, 45))]
    assert sizes[:30] == [min(10, size) for size in range(1, 31)]
    assert sizes[-1] < 10


def test_the_example_of_the_digest_has_an_error_of_two() -> None:
    window = ApproximateWindow(m.sum, max_error(absolute=2))
    for value in (1, 1, -1, -1):
        window.insert(value)
    assert window.sizes() == [4]
    assert window.guarantee().errors == {"sum": 0}, "nothing has left: it is exact"
    window.evict(2)
    assert window.guarantee().errors == {"sum": 2}
    tighter = ApproximateWindow(m.sum, max_error(absolute=1.9))
    for value in (1, 1, -1, -1):
        tighter.insert(value)
    assert tighter.sizes() == [2, 2]


@pytest.mark.parametrize("stream", [steady, step_up])
def test_a_bound_on_the_count_works_for_any_monoid(stream: Callable[[int], Stream]) -> None:
    texts = [chr(0x4E00 + i % 5_000) for i in range(4_000)]
    for exact, approximate, window in both(
        CONCATENATION, max_error("2%", of="count"), last(500), texts
    ):
        assert abs(len(approximate) - len(exact)) <= 0.02 * len(exact)
        assert exact.endswith(approximate) or approximate.endswith(exact)
        assert window.created < 1_500
    window = ApproximateWindow(m.max, max_error(absolute=9, of="count"))
    window.roll(stream(300), last(100))
    assert window.buckets <= 12


def test_a_bound_on_time_and_value_windows() -> None:
    random = Random(3)
    monoid = m.product(time=m.time.over(itemgetter(0)), total=m.sum.over(itemgetter(1)))
    times = sorted(random.randrange(100_000) for _ in range(3_000))
    updates = [(time, random.randrange(10)) for time in times]
    for policy in (time_span(9_000), value_bound(800, lambda value: value.total)):
        for exact, approximate, _ in both(monoid, max_error(absolute=25), policy, updates):
            assert abs(approximate.total - exact.total) <= 25


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_finite_numbers_are_never_folded_by_a_bound(bad: float) -> None:
    values = [*steady(400), bad, *steady(400)]
    for exact, approximate, window in both(m.sum, max_error("1%", absolute=5), last(50), values):
        if math.isfinite(exact):
            assert abs(approximate - exact) <= 0.01 * exact + 5
        else:
            assert math.isnan(approximate) or approximate == exact
            assert window.buckets > 1


def test_integers_beyond_floats_stay_exact() -> None:
    huge = 10**400
    values = [huge + i for i in range(60)]
    window = ApproximateWindow(m.sum, max_error("1%"))
    window.roll(values, last(20))
    assert window.result() == sum(values[-20:])


def test_evictions_one_by_one_keep_the_bound() -> None:
    window = ApproximateWindow(m.sum, max_error(absolute=5))
    for step in range(1_000):
        window.insert(1)
        if step >= 100:
            window.evict(1)
        exact = min(step + 1, 100)
        assert abs(window.result() - exact) <= window.guarantee().errors["sum"] <= 5
    while len(window) > 50:
        window.evict()
    assert len(window) <= 50


def test_a_mean_of_nothing_is_not_guaranteed() -> None:
    window = ApproximateWindow(m.mean, max_error("5%"))
    window.roll(repeat(10.0, 400), last(100))
    while window.sizes()[-1] == 1:
        window.insert(10.0)
        window.slide(last(100))
    newest = window.sizes()[-1]
    window.slide(Policy(window_invariant=lambda part: part.size < newest, keep_newest=False))
    assert window.result() is None
    assert not window.guarantee().holds


def test_a_dimension_called_count_is_bounded_like_any_other() -> None:
    monoid = m.product(count=m.sum, updates=m.sum, peak=m.max)
    values = [1_000.0 if i % 100 == 50 else 1.0 for i in range(1_000)]
    for exact, approximate, window in both(monoid, max_error("5%"), last(100), values):
        if window.guarantee().holds:
            assert abs(approximate["count"] - exact["count"]) <= 0.05 * exact["count"]
            assert abs(approximate["updates"] - exact["updates"]) <= 0.05 * exact["updates"]


def test_what_does_not_add_up_is_refused_before_it_is_in() -> None:
    window = ApproximateWindow(m.sum, max_error("5%", of={"name": lambda state: "text"}))
    with pytest.raises(InvalidValueError, match="no number"):
        window.insert(1)
    assert len(window) == 0


def test_integers_beyond_floats_have_a_guarantee() -> None:
    window = ApproximateWindow(m.sum, [max_error("5%"), max_leaves(3)])
    for _ in range(20):
        window.insert(10**400)
    assert window.guarantee().holds in (True, False)
    assert window.result() == 20 * 10**400
