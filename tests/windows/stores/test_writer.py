"""The way to the store: how little is written, and outages that the buffer bears or does not."""

from __future__ import annotations

from contextlib import suppress

import pytest

from holdfast.errors import StoreError, StoreUnavailableError
from holdfast.windows.stores.store import MemoryStore
from holdfast.windows.stores.stored import open_window
from tests.windows.counting import CONCATENATION, SPAN, SUM
from tests.windows.invariants import assert_structure
from tests.windows.stores.faulty import FlakyStore, LateExecutor
from tests.windows.stores.spans import AnyAmta, assert_span, feed, stored


def test_the_store_does_not_grow_with_what_was_fed() -> None:
    store = MemoryStore()
    window: AnyAmta = open_window(SPAN, store, "w", buffer=16, cache=16)
    largest = 0
    for upto in range(500, 20_000, 500):
        feed(window, upto, 300)
        largest = max(largest, store.count())
    assert largest <= 300 + 4 * 16
    assert_span(window, 300)


def test_pairs_that_die_in_the_buffer_never_see_the_store() -> None:
    store = MemoryStore()
    window: AnyAmta = open_window(SPAN, store, "w", buffer=64)
    feed(window, 10_000, 3)
    assert stored(window).stats.written < 1000
    assert store.count() <= 5


def test_a_window_that_is_empty_time_and_again_is_saved_as_well() -> None:
    store = MemoryStore()
    window = open_window(SUM, store, "window", buffer=8)
    for number in range(100):
        window.insert(number)
        window.evict()
    assert open_window(SUM, store, "window").position >= 100 - 2 * 8


def test_a_slow_store_slows_the_window_before_a_crash_would_throw_it_far_back() -> None:
    store = MemoryStore()
    window: AnyAmta = open_window(SPAN, store, "w", buffer=16, executor=LateExecutor())
    feed(window, 1000, 2)
    assert_span(window, 2)
    assert 1000 - 2 * 16 <= open_window(SPAN, store, "w").position < 1000


# Outages


def test_an_outage_that_the_buffer_can_bear_goes_unnoticed(flaky: FlakyStore) -> None:
    window: AnyAmta = open_window(SPAN, flaky, "w", buffer=256, cache=512)
    feed(window, 1000, 40)
    flaky.away = True
    asked = flaky.asked
    results = feed(window, 1200, 40)
    assert results[-1] == (1160, 1199)
    assert stored(window).stats.failed_flushes > 0
    assert flaky.asked - asked < 20, "the store is asked less and less often"
    flaky.away = False
    feed(window, 2000, 40)
    window.checkpoint()
    assert feed(open_window(SPAN, flaky, "w"), 2001, 40) == [(1961, 2000)]


def test_a_window_that_fits_the_buffer_outlives_any_outage(flaky: FlakyStore) -> None:
    window: AnyAmta = open_window(SPAN, flaky, "w", buffer=256)
    flaky.away = True
    feed(window, 5000, 40)
    assert_span(window, 40)
    flaky.away = False
    window.checkpoint()
    assert open_window(SPAN, flaky, "w").position == 5000


@pytest.mark.parametrize("late", [False, True])
def test_an_outage_beyond_the_buffer_is_an_error_that_changes_nothing(
    flaky: FlakyStore, late: bool
) -> None:
    executor = LateExecutor() if late else None
    window: AnyAmta = open_window(CONCATENATION, flaky, "w", buffer=8, executor=executor)
    for number in range(100):
        window.insert(f"{number},")
    flaky.away = True
    with suppress(StoreUnavailableError):
        for number in range(100, 200):
            window.insert(f"{number},")
    assert 100 < window.position < 120
    before = window.position, window.result(), len(window)
    for _ in range(5):
        with pytest.raises(StoreUnavailableError, match="buffer of 8 pairs is full"):
            window.insert(f"{window.position},")
        assert (window.position, window.result(), len(window)) == before
    flaky.away = False
    for number in range(window.position, 200):
        window.insert(f"{number},")
    assert window.result() == "".join(f"{number}," for number in range(200))
    window.evict(150)
    assert_structure(window)
    window.checkpoint()
    assert open_window(CONCATENATION, flaky, "w").result() == window.result()


@pytest.mark.parametrize("late", [False, True])
def test_a_write_that_fails_for_good_is_reported_and_loses_nothing(
    flaky: FlakyStore, late: bool
) -> None:
    executor = LateExecutor() if late else None
    window: AnyAmta = open_window(SPAN, flaky, "w", buffer=8, executor=executor)
    feed(window, 100, 50)
    flaky.away, flaky.fails_with = True, StoreError("the disk is on fire")
    reports = set()
    for _ in range(20):
        before = window.position
        try:
            window.insert(before)
        except StoreError as error:
            reports.add((window.position - before, str(error)))
    assert reports == {(0, "the disk is on fire")}
    flaky.away = False
    feed(window, 200, 50)
    assert_span(window, 50)
    assert_structure(window)
