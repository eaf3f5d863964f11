"""A window and its forks in one store: which is resumed, and what is cleared away."""

from __future__ import annotations

import pytest

from holdfast.errors import StoreUnavailableError, WindowDroppedError
from holdfast.windows.stores.store import MemoryStore
from holdfast.windows.stores.stored import open_window
from tests.windows.counting import CONCATENATION, SPAN
from tests.windows.invariants import assert_structure
from tests.windows.stores.faulty import FlakyStore, pairs_needed
from tests.windows.stores.spans import AnyAmta, assert_span, feed, stored


def test_after_a_crash_the_base_is_resumed_and_its_forks_are_cleared_away() -> None:
    store = MemoryStore()
    base: AnyAmta = open_window(SPAN, store, "w", buffer=4)
    feed(base, 100, 50)
    fork, other = base.fork(), base.fork()
    feed(fork, 300, 50)
    feed(fork.fork(), 310, 50)
    feed(other, 140, 50)
    base.checkpoint()
    assert store.epochs("w") == [0, 1, 2, 3]
    resumed: AnyAmta = open_window(SPAN, store, "w")
    assert store.epochs("w") == [0]
    assert resumed.position == 100
    assert_span(resumed, 50)


def test_when_the_base_is_dropped_the_fork_is_resumed() -> None:
    store = MemoryStore()
    base: AnyAmta = open_window(CONCATENATION, store, "w", buffer=4)
    for number in range(100):
        base.insert(f"{number},")
    fork = base.fork()
    for number in range(100, 200):
        base.insert(f"base {number},")
        fork.insert(f"{number},")
    base.drop()
    with pytest.raises(WindowDroppedError):
        base.checkpoint()
    fork.evict(50)
    fork.checkpoint()
    resumed = open_window(CONCATENATION, store, "w", buffer=4)
    assert resumed.position == 200
    assert list(resumed.leaves()) == [f"{number}," for number in range(50, 200)]
    assert store.epochs("w") == [0, 1]
    for number in range(200, 300):
        resumed.insert(f"{number},")
        resumed.evict()
    for _ in range(10):
        resumed.checkpoint()
    assert store.epochs("w") == [1], "the base's last pair is gone"
    assert store.count() <= 1 + pairs_needed(resumed)
    assert_structure(resumed)


def test_a_busy_fork_does_not_keep_its_base_from_being_saved() -> None:
    store = MemoryStore()
    base: AnyAmta = open_window(SPAN, store, "w", buffer=16)
    feed(base, 100, 50)
    fork = base.fork()
    for number in range(100, 300):
        feed(base, number, 50)
        feed(fork, fork.position + 20, 50)
    assert open_window(SPAN, store, "w").position > 299 - 2 * 16


def test_a_fork_is_saved_in_place_of_its_dropped_base_with_its_next_update() -> None:
    store = MemoryStore()
    base: AnyAmta = open_window(SPAN, store, "w", buffer=256)
    feed(base, 100, 50)
    base.checkpoint()
    fork = base.fork()
    feed(fork, 120, 50)
    base.drop()
    feed(fork, 121, 50)
    assert open_window(SPAN, store, "w").position == 120


def test_of_several_forks_the_oldest_takes_the_place_of_a_dropped_base() -> None:
    store = MemoryStore()
    base: AnyAmta = open_window(SPAN, store, "w", buffer=4)
    feed(base, 100, 50)
    first, second = base.fork(), base.fork()
    feed(first, 120, 50)
    feed(second, 140, 50)
    base.drop()
    first.checkpoint()
    second.checkpoint()
    assert open_window(SPAN, store, "w").position == 120


def test_a_fork_that_writes_deletes_nothing_that_a_resumed_base_would_need() -> None:
    store = MemoryStore()
    base: AnyAmta = open_window(SPAN, store, "w", buffer=256)
    feed(base, 100, 100)
    base.checkpoint()
    base.evict(60)
    fork = base.fork()
    feed(fork, 150, 40)
    fork.checkpoint()
    resumed: AnyAmta = open_window(SPAN, store, "w", buffer=256)
    assert resumed.result() == (0, 99)
    assert_structure(resumed)


def test_until_a_fork_is_saved_in_its_place_a_dropped_base_can_be_resumed() -> None:
    store = MemoryStore()
    base: AnyAmta = open_window(SPAN, store, "w", buffer=256)
    feed(base, 100, 50)
    base.fork()
    other = base.fork()
    feed(base, 200, 50)
    base.checkpoint()
    base.drop()
    feed(other, 150, 50)
    other.checkpoint()
    resumed: AnyAmta = open_window(SPAN, store, "w", buffer=256)
    assert resumed.position == 200
    assert_structure(resumed)


# Garbage


def test_garbage_of_a_dropped_fork_is_collected_though_the_store_was_away(
    flaky: FlakyStore,
) -> None:
    store = MemoryStore()
    flaky.store = store
    base: AnyAmta = open_window(SPAN, flaky, "w", buffer=16)
    feed(base, 100, 50)
    fork = base.fork()
    feed(fork, 200, 100)
    fork.checkpoint()
    fork.drop()
    flaky.away = True
    for _ in range(5):
        with pytest.raises(StoreUnavailableError):
            base.checkpoint()
    flaky.away = False
    for _ in range(20):
        base.checkpoint()
    assert store.count() <= 1 + pairs_needed(base)
    assert store.epochs("w") == [0]


def test_garbage_collection_spares_what_an_idle_fork_needs() -> None:
    store = MemoryStore()
    base: AnyAmta = open_window(SPAN, store, "w", buffer=4, cache=4)
    feed(base, 200, 100)
    fork = base.fork()
    feed(base, 2000, 100)
    assert_structure(fork)
    assert fork.result() == (100, 199)
    before = store.count()
    fork.drop()
    feed(base, 2100, 100)
    assert store.count() < before - 50


def test_a_fork_that_runs_while_its_base_stands_still_does_not_fill_the_store() -> None:
    store = MemoryStore()
    base: AnyAmta = open_window(SPAN, store, "w", buffer=8)
    feed(base, 200, 100)
    fork = base.fork()
    feed(fork, 10_000, 100)
    assert store.count() < 400
    assert_span(fork, 100)
    base.drop()
    feed(fork, 10_400, 100)
    assert store.count() < 200
    assert store.epochs("w") == [1]


def test_taking_the_forks_place_again_and_again_costs_nothing() -> None:
    window: AnyAmta = open_window(SPAN, MemoryStore(), "w", buffer=4)
    feed(window, 100, 50)
    for _ in range(50):
        fork = window.fork()
        window.drop()
        window = fork
    assert len(list(stored(window)._epoch.lineage())) == 2
    feed(window, 150, 50)
    assert_structure(window)


def test_dropping_the_last_window_empties_the_store(flaky: FlakyStore) -> None:
    window: AnyAmta = open_window(SPAN, flaky, "w", buffer=4)
    feed(window, 100, 50)
    flaky.away = True
    with pytest.raises(StoreUnavailableError):
        window.drop()
    assert_span(window, 50)
    flaky.away = False
    window.drop()
    assert flaky.store.epochs("w") == []
    assert open_window(SPAN, flaky, "w").position == 0
