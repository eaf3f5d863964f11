"""Approximate windows in a store: they outlive their process and an outage of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgumentError, StoreError, StoreUnavailableError
from holdfast.windows import Amta, MemoryStore, Monoid, Policy, open_window
from holdfast.windows import monoids as m
from holdfast.windows.approximation import (
    ApproximateWindow,
    block_maxima,
    hops,
    max_error,
    max_leaves,
)
from holdfast.windows.monoid import HOLE
from holdfast.windows.pairs import DurablePairs
from holdfast.windows.policies import last
from holdfast.windows.stores.store import Key, KeyRange, Store
from holdfast.windows.stores.stored import StoredPairs
from tests.windows.counting import CONCATENATION
from tests.windows.stores.faulty import FlakyStore, Killed, Killer

AnyWindow = ApproximateWindow[Any, Any, Any]


def stored(
    monoid: Monoid[Any, Any, Any],
    methods: Any,
    store: Store,
    *,
    buffer: int = 16,
    cache: int = 8,
) -> AnyWindow:
    opened = partial(open_window, store=store, window="w", buffer=buffer, cache=cache)
    return ApproximateWindow(monoid, methods, open_amta=opened)


def inside(window: AnyWindow) -> Any:
    return window.sizes(), list(window.leaves()), window.saved(), window.position


# Restarts


METHODS: list[tuple[Monoid[Any, Any, Any], Any]] = [
    (m.sum, max_error(absolute=40)),
    (m.sum, max_error("5%")),
    (m.mean, [max_error("2%"), hops()]),
    (m.max, block_maxima(5)),
    (m.sum, max_leaves(24)),
    (CONCATENATION, [max_error("9%"), hops(), max_leaves(9)]),
]


def slide_each(window: AnyWindow, value: float, policy: Policy) -> Any:
    window.insert(value)
    window.slide(policy)
    return window.result()


def evict_each(window: AnyWindow, value: float, policy: Policy) -> Any:
    window.insert(value)
    # Depends on the update alone: one that is fed again evicts what it evicted before.
    if window.position % 7 == 0 and len(window) > 60:
        window.evict(6)
    return window.result()


@pytest.mark.parametrize(("monoid", "methods"), METHODS, ids=lambda given: str(given)[:30])
@pytest.mark.parametrize("step", [slide_each, evict_each])
@settings(max_examples=7, deadline=None)
@given(seed=st.integers(0, 2**32), kills=st.lists(st.tuples(st.integers(1, 60), st.booleans())))
def test_a_window_killed_anywhere_goes_on_as_if_it_had_not_been(
    monoid: Any, methods: Any, step: Any, seed: int, kills: list[tuple[int, bool]]
) -> None:
    random = Random(seed)
    values: Any = [20 + random.gauss(0, 3) for _ in range(400)]
    if monoid is CONCATENATION:
        values = TEXT[:400]
    policy, oracle = last(75), ApproximateWindow(monoid, methods)
    expected = [(step(oracle, value, policy), oracle.guarantee()) for value in values]
    store = Killer(MemoryStore())
    window = stored(monoid, methods, store)
    position = 0
    while position < len(values):
        try:
            while position < len(values):
                answer = step(window, values[position], policy)
                assert (answer, window.guarantee()) == expected[position]
                position += 1
                assert window.position == position
                if kills:
                    store.fatal = store.calls + kills[-1][0], kills.pop()[1]
        except Killed:
            store.fatal = None
            window = stored(monoid, methods, store)
            assert position - 2 * 16 - 1 <= window.position <= position
            position = window.position
    assert inside(window) == inside(oracle)


def test_a_checkpoint_makes_everything_durable() -> None:
    store = MemoryStore()
    window = stored(CONCATENATION, max_error(absolute=9, of="count"), store)
    window.roll("abcdefghijklmnopqrstuvwxyz" * 9, last(100))
    window.evict(3)
    window.checkpoint()
    again = stored(CONCATENATION, max_error(absolute=9, of="count"), store)
    assert inside(again) == inside(window)
    assert again.position == 26 * 9


def test_a_fork_that_outlives_its_base_is_what_is_resumed() -> None:
    store = MemoryStore()
    window = stored(m.sum, max_error(absolute=9), store)
    window.roll(range(100), last(30))
    fork = window.fork()
    fork.roll(range(50), last(30))
    window.drop()
    fork.checkpoint()
    assert inside(stored(m.sum, max_error(absolute=9), store)) == inside(fork)


def test_an_emptied_window_resumes_empty() -> None:
    store = MemoryStore()
    window = stored(m.sum, max_error(absolute=9), store)
    window.roll(range(100), last(30))
    window.evict(len(window))
    window.checkpoint()
    again = stored(m.sum, max_error(absolute=9), store)
    assert (len(again), again.position) == (0, 100)


def test_a_window_of_other_methods_is_refused() -> None:
    store = MemoryStore()
    stored(m.sum, max_error(absolute=9), store).checkpoint()
    with pytest.raises(StoreError, match=r"stored with max_error.*another name"):
        stored(m.sum, max_error(absolute=8), store)


def test_a_window_that_was_not_approximate_is_refused_and_the_other_way_round() -> None:
    store = MemoryStore()
    open_window(m.sum, store, "w").checkpoint()
    with pytest.raises(StoreError, match=r"stored with the monoid 'sum', not 'sum.in buckets"):
        stored(m.sum, max_leaves(9), store)
    other = MemoryStore()
    stored(m.sum, max_leaves(9), other).checkpoint()
    with pytest.raises(StoreError, match="in buckets"):
        open_window(m.sum, other, "w")


def test_buckets_that_nothing_accompanies_are_refused() -> None:
    store = MemoryStore()

    def filled(monoid: Any) -> Any:
        amta = open_window(monoid, store, "w")
        amta.insert(5)
        return amta

    with pytest.raises(InvalidArgumentError, match="holds 1 buckets that this one knows nothing"):
        ApproximateWindow(m.sum, max_leaves(9), open_amta=filled)


# Outages


class Shaky:
    """A store that is away, or whose writes are done and reported as failed, now and then."""

    def __init__(self) -> None:
        self.flaky = FlakyStore(MemoryStore())
        self.random = Random(0)
        self.share = 0.0
        """Of calls that fail before their effect, and of writes that fail after it."""

    def read(self, keys: Sequence[Key]) -> list[bytes | None]:
        self._roll()
        return self.flaky.read(keys)

    def write(self, puts: Mapping[Key, bytes], deletes: Sequence[KeyRange]) -> int:
        self._roll()
        return self.flaky.write(puts, deletes)

    def epochs(self, window: str) -> list[int]:
        self._roll()
        return self.flaky.epochs(window)

    def _roll(self) -> None:
        self.flaky.away = self.random.random() < self.share
        self.flaky.loses_replies = self.random.random() < self.share


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["feed", "feed", "share", "constrain", "kill", "fork", "save"]),
        st.integers(0, 2**16),
    ),
    max_size=30,
)
NUMBERS = [20 + 3 * Random(i).gauss(0, 1) for i in range(15_000)]
TEXT = "".join(chr(0x4E00 + i) for i in range(15_000))
OUTAGES: list[tuple[Monoid[Any, Any, Any], Any]] = [
    (m.sum, max_error(absolute=60)),
    (m.sum, [max_error("2%"), max_leaves(80)]),
    (m.mean, [max_error("2%"), hops()]),
    (CONCATENATION, max_leaves(70)),
    (CONCATENATION, [max_error("5%"), hops(), max_leaves(30)]),
]


@pytest.mark.parametrize(("monoid", "methods"), OUTAGES, ids=range(len(OUTAGES)))
@settings(max_examples=8, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 2**16))
def test_whatever_the_store_does_updates_go_on_and_the_bound_is_honest(
    monoid: Any, methods: Any, steps: list[tuple[str, int]], seed: int
) -> None:
    store = Shaky()
    store.random.seed(seed)
    text = monoid is CONCATENATION
    updates: Any = TEXT if text else NUMBERS
    window, size = stored(monoid, methods, store), 10 + seed % 300

    def check() -> None:
        fed = updates[: window.position]
        held, exact = fed[len(fed) - len(window) :], Amta(monoid)
        for update in held:
            exact.insert(update)
        assert window.result() == (exact.result() if text else pytest.approx(exact.result()))
        if is_away():
            assert window.buckets <= 16 + 8
        exact = Amta(monoid)
        for update in fed[-size:]:
            exact.insert(update)
        guarantee = window.guarantee()
        for name, error in guarantee.errors.items():
            wrong = abs(_amount(name, window.aggregate()) - _amount(name, exact.aggregate()))
            assert wrong <= error + 1e-6

    def _amount(name: str, state: Any) -> float:
        if state is HOLE:
            return 0
        if text or name == "count":
            return len(state) if text else state[2]
        return float(state[0] + state[1])

    def is_away() -> bool:
        return not isinstance(window.amta.pairs, DurablePairs)

    for verb, number in steps:
        match verb:
            case "feed":
                for update in updates[window.position :][: number % 400]:
                    window.insert(update)
                    window.slide(last(size))
            case "share":
                store.share = (0.0, 0.02, 0.3, 1.0)[number % 4]
            case "constrain":
                window.constrain(3 + number % 60 if number % 3 else None)
            case "fork":
                other = window.fork()
                other.insert(updates[0])
                other.slide(last(5))
            case "save":
                with suppress(StoreUnavailableError):
                    window.checkpoint()
            case "kill":
                share, store.share = store.share, 0.0
                before = window.position
                window = stored(monoid, methods, store)
                assert window.position <= before
                store.share = share
        check()
    store.share = 0.0
    for update in updates[window.position :][:1_100]:
        window.insert(update)
        window.slide(last(size))
    check()
    assert not is_away(), "the store is back"
    window.checkpoint()
    assert inside(stored(monoid, methods, store)) == inside(window)


@pytest.mark.parametrize("methods", [max_leaves(2_000), max_error(absolute=2, of="count")])
@pytest.mark.parametrize("cached", [(8, 0), (16, 8), (256, 256)])
def test_an_outage_of_any_length_stops_nothing(methods: Any, cached: tuple[int, int]) -> None:
    buffer, cache = cached
    store = FlakyStore(MemoryStore())
    window = stored(m.sum, methods, store, buffer=buffer, cache=cache)
    window.roll([1] * 2_500, last(2_000))
    store.away = True
    # Half of what is kept are upper levels that are whole, half of these their lowest.
    coarsest = 8 * 2_048 // (buffer + cache)
    for step in range(2_500):
        window.insert(1)
        window.slide(last(2_000))
        assert abs(window.result() - 2_000) <= window.guarantee().errors.get("count", 2_000)
        if step > buffer + 2 * cache:
            assert window.buckets <= buffer + cache
            assert max(window.sizes()) <= coarsest
            assert abs(window.result() - 2_000) <= coarsest
    store.away = False
    window.roll([1] * 4_500, last(2_000))
    assert max(window.sizes()) <= 3, "as fine as before"
    again = stored(m.sum, methods, store, buffer=buffer, cache=cache)
    assert 9_500 - 2 * buffer <= again.position <= 9_500


def test_evictions_by_count_go_on_in_an_outage() -> None:
    store = FlakyStore(MemoryStore())
    window = stored(m.sum, max_error(absolute=7), store, buffer=32, cache=32)
    window.roll([1] * 3_000, last(1_000))
    gone = 0
    for step in range(2_000):
        store.away = 200 <= step < 1_500
        window.insert(1)
        if step % 10 == 0:
            window.evict(10)
            gone = step + 10
        exact = 1_000 + step + 1 - gone
        assert abs(window.result() - exact) <= window.guarantee().errors["sum"]
    window.checkpoint()
    assert inside(stored(m.sum, max_error(absolute=7), store)) == inside(window)


def test_forks_and_drops_in_an_outage() -> None:
    store = FlakyStore(MemoryStore())
    window = stored(m.sum, max_leaves(500), store)
    window.roll(range(1_000), last(400))
    store.away = True
    window.roll(range(1_000), last(400))
    fork = window.fork()
    fork.roll([1] * 900, last(400))
    assert fork.result() == len(fork), "in memory"
    with pytest.raises(StoreUnavailableError):
        window.checkpoint()
    store.away = False
    window.checkpoint()
    window.drop()
    assert store.store.count() == 0
    assert fork.roll([2] * 900, last(400))[-1] == 2 * len(fork)


def test_what_is_held_for_an_outage_is_bounded() -> None:
    store = MemoryStore()
    window = stored(m.sum, max_error(absolute=0.5), store, buffer=32, cache=32)
    most = 0
    for value in range(20_000):
        window.insert(value)
        window.slide(last(10_000))
        most = max(most, window.amta.pairs.held())
    # Twice buffer and cache, and some pairs of each of 14 levels.
    assert most <= 2 * 64 + 4 * 14


# Level evictions


def test_level_eviction_in_a_store_reads_and_writes_little() -> None:
    store, plain = FlakyStore(MemoryStore()), ApproximateWindow(m.sum, max_leaves(8_192))
    window = stored(m.sum, max_leaves(8_192), store)
    for each in (window, plain):
        each.roll(range(12_000), last(8_000))
    pairs = window.amta.pairs
    assert isinstance(pairs, StoredPairs)
    fetched, written, records = store.fetched, pairs.stats.written, store.store.count()
    for each in (window, plain):
        each.constrain(1_000)
    window.checkpoint()
    assert store.fetched - fetched <= 3 * 3 * 14, "some pairs of each level, three times"
    assert pairs.stats.written - written <= 3 * 14 + 16
    for each in (window, plain):
        each.roll(range(12_000), last(8_000))
    assert inside(window) == inside(plain)
    assert store.store.count() <= 1_000 + 100 < records, "what was dropped is deleted"
    assert store.largest_delete <= 3 * 2 * 16


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["roll", "roll", "constrain", "fork", "drop", "resume", "swap"]),
            st.integers(0, 2**16),
        ),
        max_size=30,
    )
)
@settings(max_examples=40, deadline=None)
def test_forks_drop_levels_without_disturbing_each_other(steps: list[tuple[str, int]]) -> None:
    store, methods = MemoryStore(), max_leaves(60)
    windows = [(ApproximateWindow(CONCATENATION, methods), stored(CONCATENATION, methods, store))]
    for verb, number in steps:
        plain, window = windows[0]
        match verb:
            case "roll":
                text = TEXT[number : number + number % 200]
                assert window.roll(text, last(90)) == plain.roll(text, last(90))
            case "constrain":
                for each in (plain, window):
                    each.constrain(3 + number % 60 if number % 5 else None)
            case "fork":
                windows.append((plain.fork(), window.fork()))
            case "swap":
                windows.append(windows.pop(0))
            case "drop" if len(windows) > 1:
                window.drop()
                del windows[0]
            case "resume" if len(windows) == 1:
                window.checkpoint()
                windows[0] = plain, stored(CONCATENATION, methods, store)
        for plain, window in windows:
            assert inside(window)[:3] == inside(plain)[:3]


def test_a_window_may_drop_levels_for_ever() -> None:
    store, plain = MemoryStore(), ApproximateWindow(CONCATENATION, max_leaves(9))
    window = stored(CONCATENATION, max_leaves(9), store)
    for start in range(0, 50 * 20, 20):
        for each in (plain, window):
            each.constrain(None)
            each.roll(TEXT[start : start + 20], last(70))
            each.constrain(8)
        assert TEXT[: start + 20].endswith(window.result())
        assert abs(len(window) - len(plain)) <= 70
        if start % 7 == 0:
            window.checkpoint()
            window = stored(CONCATENATION, max_leaves(9), store)
    assert store.count() < 100
