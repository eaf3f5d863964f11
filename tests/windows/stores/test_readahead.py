"""Reading from the store: few pairs, mostly ahead of need, and nothing changed when it fails."""

from __future__ import annotations

from math import log2

import pytest

from holdfast.errors import StoreCorruptError, StoreUnavailableError
from holdfast.windows.policies import last
from holdfast.windows.stores.store import Key, MemoryStore
from holdfast.windows.stores.stored import open_window
from tests.windows.counting import SPAN
from tests.windows.invariants import assert_structure
from tests.windows.stores.faulty import FlakyStore, LateExecutor
from tests.windows.stores.spans import AnyAmta, assert_span, feed, stored


def test_a_cold_start_fetches_few_pairs(flaky: FlakyStore) -> None:
    window: AnyAmta = open_window(SPAN, flaky, "w", buffer=64)
    size = 2**14 - 3
    feed(window, size + 1000, size)
    window.checkpoint()
    flaky.fetched = 0
    resumed: AnyAmta = open_window(SPAN, flaky, "w")
    assert flaky.fetched == 1, "the root"
    feed(resumed, resumed.position + 1, size)
    assert_span(resumed, size)
    assert flaky.fetched <= 1 + 2 * log2(size)


def test_bulk_eviction_fetches_few_pairs_and_deletes_in_small_batches(flaky: FlakyStore) -> None:
    window: AnyAmta = open_window(SPAN, flaky, "w", buffer=64, cache=64)
    size = 2**14
    feed(window, size, size)
    flaky.fetched = 0
    window.evict(size - 100)
    assert flaky.fetched <= 2 * log2(size)
    feed(window, 2 * size, 100)
    assert_span(window, 100)
    assert flaky.largest_delete <= 2 * 64 + log2(size)
    assert stored(window).stats.deleted > size - 100


def test_reading_ahead_makes_misses_rare() -> None:
    window: AnyAmta = open_window(SPAN, MemoryStore(), "w", buffer=256, cache=256)
    feed(window, 10_000, 4000)
    stats = stored(window).stats
    before, misses = stats.read, stats.misses
    feed(window, 20_000, 4000)
    assert_span(window, 4000)
    assert stats.misses - misses <= 20
    assert 9_000 < stats.read - before < 12_000
    assert stats.prefetched > 0.99 * stats.read - 100
    assert stats.written > 19_000
    assert stats.flushes <= 20_000 / 128 + 1
    assert stats.failed_flushes == 0


def test_a_read_that_fails_leaves_the_window_as_it_was(flaky: FlakyStore) -> None:
    window: AnyAmta = open_window(SPAN, flaky, "w", buffer=4, cache=0)
    feed(window, 1000, 1000)
    flaky.away = True
    for count in (301, 640):
        for _ in range(2):
            with pytest.raises(StoreUnavailableError):
                window.evict(count)
            assert window.result() == (0, 999)
    flaky.away = False
    window.evict(301)
    assert window.result() == (301, 999)
    assert_structure(window)


def test_damage_found_while_reading_ahead_is_reported() -> None:
    store, executor = MemoryStore(), LateExecutor()
    window: AnyAmta = open_window(SPAN, store, "w", buffer=8, cache=64, executor=executor)
    feed(window, 1000, 1000)
    window.checkpoint()
    for position in range(500):
        key = Key("w", 0, 0, position)
        record = store.read([key])[0]
        if record is not None and position > 40:
            store.write({key: record[:-1] + b"!"}, [])
    damage = r"window 'w', epoch 0, level 0, position \d+: the record's checksum is wrong"
    with pytest.raises(StoreCorruptError, match=damage):
        window.roll(range(1000, 1100), last(1000))
    assert 0 < window.evicted < 90
    assert window.result() == (window.evicted, window.position - 1)


def test_a_lost_pair_is_reported() -> None:
    store = MemoryStore()
    window: AnyAmta = open_window(SPAN, store, "w", buffer=2, cache=0)
    feed(window, 64, 64)
    window.checkpoint()
    del store._records[Key("w", 0, 2, 2)]
    with pytest.raises(StoreCorruptError, match="level 2, position 2: there is no such record"):
        window.evict(16)
    assert window.result() == (0, 63)
