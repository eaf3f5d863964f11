"""Approximate windows: memory, methods together, evictions, forks and records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import EmptyWindowError, InvalidArgumentError
from holdfast.windows import MemoryStore, open_window
from holdfast.windows import monoids as m
from holdfast.windows.approximation import (
    ApproximateWindow,
    block_maxima,
    hops,
    max_error,
    max_leaves,
)
from holdfast.windows.policies import last
from tests.windows.approximation.beside import both
from tests.windows.counting import CONCATENATION
from tests.windows.stores.faulty import FlakyStore

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
    store = FlakyStore(MemoryStore())
    opened = partial(open_window, store=store, window="meter", buffer=32, cache=8)
    window = ApproximateWindow(m.sum, max_leaves(400), open_amta=opened)
    window.roll(range(4_000), last(3_000))
    store.away = True
    window.constrain(20)
    assert window.buckets <= 20
    gone, coarsest = 0, max(window.sizes())
    for value in range(4_000, 9_000):
        window.insert(value)
        gone += window.slide(last(3_000))
        assert window.buckets <= 20
        assert abs(len(window) - 3_000) <= coarsest
        assert window.result() == sum(range(value + 1 - len(window), value + 1))
    assert gone >= 5_000 - coarsest, "all of the outage through"
    assert max(window.sizes()) <= 2 * (3_000 // 20 + 1), "as even as the limit makes them"
    store.away = False
    written = store.store.count()
    window.roll(range(9_000, 11_000), last(3_000))
    assert window.buckets <= 20
    window.checkpoint()
    assert 0 < store.store.count() < written
    again = ApproximateWindow(m.sum, max_leaves(400), open_amta=opened)
    assert (again.position, again.sizes(), again.result()) == (
        11_000,
        window.sizes(),
        sum(range(11_000 - len(window), 11_000)),
    )


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


def test_without_a_bound_nothing_is_guaranteed() -> None:
    window = ApproximateWindow(m.sum, max_leaves(3))
    assert window.guarantee().holds is None
