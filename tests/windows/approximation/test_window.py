"""Approximate windows against exact ones: bounds, memory, forks and what folds when."""

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

from holdfast.errors import EmptyWindowError, InvalidArgumentError, InvalidValueError
from holdfast.windows import Amta, MemoryStore, Monoid, Policy, Store, open_window
from holdfast.windows import monoids as m
from holdfast.windows.approximation import (
    ApproximateWindow,
    Method,
    block_maxima,
    hops,
    max_error,
    max_leaves,
)
from holdfast.windows.policies import before_max, hopping, last, time_span, value_bound
from holdfast.windows.stores.store import Key, KeyRange
from tests.windows.counting import CONCATENATION

Stream = Sequence[float]


def both(
    monoid: Monoid[Any, Any, Any], methods: Method | Sequence[Method], policy: Policy, values: Any
) -> Iterable[tuple[Any, Any, ApproximateWindow[Any, Any, Any]]]:
    """After each update: the exact answer, the approximate one, and its window."""
    exact, window = Amta(monoid), ApproximateWindow(monoid, methods)
    for value in values:
        for each in (exact, window):
            each.insert(value)
            each.slide(policy)
        yield exact.result(), window.result(), window


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


# Maxima


def test_no_maximum_folds_before_thirty_blocks_and_many_do_after() -> None:
    random = Random(1)
    values = [random.gauss(0, 1) for _ in range(40_000)]
    window = ApproximateWindow(m.max, block_maxima(100))
    for step, value in enumerate(values):
        window.insert(value)
        window.slide(last(2_000))
        if step < 30 * 100:
            assert window.buckets == len(window)
    assert window.buckets < len(window) / 5


@pytest.mark.parametrize("shape", ["light", "heavy", "bounded", "drifting"])
@pytest.mark.parametrize("monoid", [m.max, m.min], ids=["max", "min"])
def test_a_new_maximum_is_never_folded_away(shape: str, monoid: Monoid[Any, Any, Any]) -> None:
    random = Random(2)
    draw: dict[str, Callable[[int], float]] = {
        "light": lambda i: random.gauss(0, 1),
        "heavy": lambda i: random.paretovariate(1.2),
        "bounded": lambda i: random.random(),
        "drifting": lambda i: random.random() - i / 500,
    }
    sign = 1 if monoid is m.max else -1
    values = [sign * draw[shape](i) for i in range(9_000)]
    exact_share = 0
    window = ApproximateWindow(monoid, block_maxima(50))
    exact = Amta(monoid)
    for value in values:
        greatest = window.result()
        window.insert(value)
        if greatest is None or sign * value > sign * greatest:
            assert window.sizes()[-1] == 1
            assert window.result() == value
        window.slide(last(1_000))
        exact.insert(value)
        exact.slide(last(1_000))
        exact_share += window.result() == exact.result()
    assert exact_share > (0.4 if shape == "drifting" else 0.9) * len(values)


def test_dropping_what_precedes_the_maximum_stays_exact() -> None:
    random = Random(4)
    values = [random.expovariate(1) for _ in range(8_000)]
    for exact, approximate, _ in both(m.max, block_maxima(20), before_max(), values):
        assert approximate == exact


# Hops


@pytest.mark.parametrize(("size", "hop"), [(1_500, 500), (90, 30), (10, 3), (7, 7), (64, 5)])
def test_constant_hops_are_exact(size: int, hop: int) -> None:
    random = Random(size)
    values = [random.random() for _ in range(60 * hop + 3 * size)]
    for exact, approximate, window in both(m.sum, hops(), hopping(size, hop), values):
        assert approximate == pytest.approx(exact, rel=1e-12)
        assert window.created <= 31 * hop + size + 3 * 120


def test_a_hop_keeps_three_buckets() -> None:
    window = ApproximateWindow(m.sum, hops())
    window.roll(repeat(1, 40 * 500), hopping(1_500, 500))
    assert set(window.sizes()) == {1, 498}


def test_hops_that_vary_are_mostly_exact_and_fold_inside_the_predicted_borders() -> None:
    random = Random(9)
    sizes = [max(1, round(random.gauss(300, 5))) for _ in range(200)]
    exact_share = total = 0
    exact, window = Amta(m.sum), ApproximateWindow(m.sum, hops(0.999))
    drawn = [iter(sizes), iter(sizes)]
    for step in range(300 * 150):
        for each, draws in zip((exact, window), drawn, strict=True):
            each.insert(step % 7)
            if len(each) > 900:
                hop = next(draws)
                each.slide(_leaving(hop))
        total += 1
        exact_share += exact.result() == window.result()
    assert exact_share > 0.9 * total
    assert window.created < 0.45 * total


def _leaving(count: int) -> Policy:
    return Policy(eviction_invariant=lambda candidate, _after, _before: candidate.size <= count)


def test_a_failed_prediction_is_fed_back() -> None:
    """When hops change their size the old buckets stand in the way once; then they fit again."""
    random = Random(10)
    window, exact = ApproximateWindow(m.sum, hops()), Amta(m.sum)
    wrong = []
    for step in range(120_000):
        policy = _leaving(400 if step < 30_000 else 250)
        value = random.random()
        for each in (window, exact):
            each.insert(value)
            if len(exact) > 1_200 or (each is window and len(window) > 1_200):
                each.slide(policy)
        wrong.append(window.result() != pytest.approx(exact.result(), rel=1e-9))
        if wrong[-1] and len(window) == len(exact):
            break
    assert not any(wrong[:30_000])
    assert window._hopping is not None
    assert window._hopping._expected is not None
    assert window._hopping._expected[1] > 1 or window._hopping._expected[0] != 400


# Memory


@given(
    limit=st.integers(3, 40),
    steps=st.lists(
        st.tuples(st.sampled_from("iiiiiieslfc"), st.integers(0, 200)), min_size=1, max_size=250
    ),
)
@settings(max_examples=150, deadline=None)
def test_leaves_never_exceed_the_limit(limit: int, steps: list[tuple[str, int]]) -> None:
    window: ApproximateWindow[Any, Any, Any] = ApproximateWindow(CONCATENATION, max_leaves(limit))
    text = ""
    for step, (verb, number) in enumerate(steps):
        match verb:
            case "i":
                for i in range(number % 60):
                    window.insert(chr(0x4E00 + step * 60 + i))
                    text += chr(0x4E00 + step * 60 + i)
                    assert window.buckets <= limit
            case "e":
                window.evict(min(number, len(window)))
            case "s":
                window.slide(last(number + 1))
            case "f":
                window = window.fork()
            case "c" | "l":
                limit = 3 + number % 40
                window.constrain(limit)
        assert window.buckets <= limit
        assert text.endswith(window.result())
        assert len(window.result()) == len(window) == sum(window.sizes())


def test_buckets_are_as_even_as_the_limit_allows() -> None:
    window = ApproximateWindow(m.sum, max_leaves(100))
    before = 0
    for step in range(60_000):
        window.insert(1)
        window.slide(last(10_000))
        if step == 30_000:
            before = window.created
    assert max(window.sizes()) <= 101
    assert (window.created - before) / 29_999 == pytest.approx(1 / 100, rel=0.1)
    assert abs(window.result() - 10_000) <= 100


def test_the_digests_level_eviction() -> None:
    window = ApproximateWindow(m.sum, max_leaves(6))
    for value in (1, 2, 1, 2, 1, 2, 1):
        window.insert(value)
    assert [state[0] for state in window.leaves()] == [3, 3, 3, 1]


def test_a_store_that_is_away_makes_a_window_coarser_and_loses_nothing() -> None:
    store = AwayStore()
    window = ApproximateWindow(
        m.sum,
        max_leaves(400),
        open_amta=lambda monoid: open_window(monoid, store, "meter", buffer=32, cache=8),
    )
    for value in range(3_000):
        window.insert(value)
    written = window.created
    store.away = True
    with pytest.raises(OSError, match="away"):
        window.constrain(20)
    inserted = 3_000
    for value in range(3_000, 3_100):
        window.insert(value)
        inserted += 1
    assert window.created == written, "buckets of 150 from now on: nothing to be sent"
    store.away = False
    for value in range(3_100, 4_000):
        window.insert(value)
    assert window.buckets <= 20
    assert window.result() == sum(range(4_000))
    assert len(window) == 4_000


class AwayStore(Store):
    """A store that can be cut off."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.away = False

    def _reach(self) -> None:
        if self.away:
            raise OSError("the store is away")

    def read(self, keys: Sequence[Key]) -> Any:
        self._reach()
        return self.inner.read(keys)

    def write(self, values: Any, deleted: Sequence[KeyRange] = ()) -> Any:
        self._reach()
        return self.inner.write(values, deleted)

    def epochs(self, window: str) -> Any:
        self._reach()
        return self.inner.epochs(window)


# Together


def test_methods_that_go_together_keep_their_promises() -> None:
    random = Random(11)
    values = [1_000 + random.gauss(0, 20) for _ in range(30_000)]
    methods = [max_error("1%"), hops(), max_leaves(60)]
    for exact, approximate, window in both(m.sum, methods, last(4_000), values):
        assert window.buckets <= 60
        guarantee = window.guarantee()
        assert abs(approximate - exact) <= guarantee.errors["sum"] + 1e-6
    peaks = ApproximateWindow(m.max, [block_maxima(50), max_leaves(30)])
    for value in values:
        peaks.insert(value)
        peaks.slide(last(4_000))
        assert peaks.buckets <= 30


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ([max_error(0.1), block_maxima(5)], "max_error and block_maxima exclude each other"),
        ([hops(), hops()], "hops is there twice"),
        ([], "give a method"),
        ([0.1], "has 0.1"),
        ("0.1%", "has '0'"),
    ],
)
def test_methods_that_do_not_go_together_are_refused(methods: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        ApproximateWindow(m.sum, methods)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ApproximateWindow(m.sum, block_maxima(5)), "sum does not"),
        (lambda: ApproximateWindow(m.max, max_error(absolute=3)), "max does not add up"),
        (lambda: max_error(absolute=10**400), "beyond all floats"),
        (lambda: ApproximateWindow(m.mean, max_error(absolute=5)), "but sum, count add up"),
        (
            lambda: ApproximateWindow(m.sum, max_error(absolute={"count": 5})),
            "what adds up here is sum",
        ),
        (lambda: max_leaves(2), "at least 3"),
        (lambda: max_error(), "give how large"),
        (lambda: max_error("x%"), "above 0 and below 1"),
        (lambda: max_error(1.5), "above 0 and below 1"),
        (lambda: max_error(absolute=-1), "above 0"),
        (lambda: max_error(0.1, of="sum"), "give 'count'"),
        (lambda: hops(1.0), "below 1"),
        (lambda: block_maxima(0), "at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()


def test_texts_have_no_peaks() -> None:
    window = ApproximateWindow(m.max, block_maxima(5))
    window.insert(1)
    with pytest.raises(InvalidValueError, match="no number"):
        window.insert("text")
    assert window.result() == 1


def test_a_window_evicts_whole_buckets() -> None:
    window = ApproximateWindow(m.sum, max_error(absolute=3))
    for value in (1, 1, 1, 1, 1, 1, 1, 1):
        window.insert(value)
    assert window.sizes() == [4, 4]
    window.evict(3)
    assert window.sizes() == [4, 4]
    window.evict(2)
    assert window.sizes() == [4], "with the three before these are five"
    window.evict(3)
    assert len(window) == 0
    with pytest.raises(EmptyWindowError):
        window.evict()
    assert window.guarantee().holds


def test_forks_and_saved_windows_go_on_alike() -> None:
    random = Random(12)
    methods = [max_error("2%"), hops(), max_leaves(25)]
    window = ApproximateWindow(m.sum, methods)
    values = [random.random() + 5 for _ in range(6_000)]
    window.roll(values[:3_000], last(700))
    fork = window.fork()
    ahead = fork.roll(values[3_000:], last(700))
    assert window.roll(values[3_000:], last(700)) == ahead
    assert fork.saved() == window.saved()
    assert fork.sizes() == window.sizes()


def test_a_window_of_one_level_folds() -> None:
    window = ApproximateWindow(m.sum, max_error(absolute=2))
    for step in range(30):
        window.insert(1)
        window.slide(last(3))
        assert abs(window.result() - min(step + 1, 3)) <= 2
        assert window.aggregate()[0] == len(window)


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


def test_a_window_that_restarts_is_as_a_new_one() -> None:
    methods = [max_error("2%"), hops(), max_leaves(25)]
    window, fresh = ApproximateWindow(m.sum, methods), ApproximateWindow(m.sum, methods)
    window.roll([5.0 + i % 3 for i in range(3_000)], last(300))
    window.restart()
    assert len(window) == 0
    values = [7.0 + i % 5 for i in range(2_000)]
    assert window.roll(values, last(300)) == fresh.roll(values, last(300))


def test_a_living_fork_does_not_change_its_base() -> None:
    def run(forked: bool) -> list[Any]:
        random = Random(5)
        window, results, forks = ApproximateWindow(m.sum, max_leaves(8)), [], []
        for step in range(600):
            if forked and step in (7, 40, 300):
                forks.append(window.fork())
                window, forks[-1] = forks[-1], window
            window.insert(random.randrange(100))
            if step > 20:
                window.slide(last(25 + step // 3))
            results.append(window.result())
        for fork in forks:
            fork.insert(1)
            assert fork.result() >= 0
        return results

    assert run(True) == run(False)


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


def test_without_a_bound_nothing_is_guaranteed() -> None:
    window = ApproximateWindow(m.sum, max_leaves(3))
    assert window.guarantee().holds is None
