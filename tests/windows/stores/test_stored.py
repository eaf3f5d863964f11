"""Windows in a store: the same behaviour as in memory, whatever the store does."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from math import log2
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.disk import DiskStore
from holdfast.errors import (
    InvalidArgumentError,
    InvalidValueError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
    WindowDroppedError,
)
from holdfast.windows import Amta, Monoid
from holdfast.windows import monoids as m
from holdfast.windows.policies import last, two_argument
from holdfast.windows.stores.store import Key, MemoryStore, root_key
from holdfast.windows.stores.stored import StoredPairs, open_window
from tests.windows.counting import CONCATENATION, SPAN, SUM
from tests.windows.invariants import assert_structure
from tests.windows.stores.faulty import FlakyStore, LateExecutor, most_held, pairs_needed

AnyAmta = Amta[Any, Any, Any]


def stored(window: AnyAmta) -> StoredPairs[Any]:
    pairs = window.pairs
    assert isinstance(pairs, StoredPairs)
    return pairs


@dataclass
class Line:
    """A stored window and what must be in it."""

    window: AnyAmta
    updates: list[str] = field(default_factory=list)
    position: int = 0

    def state(self) -> tuple[int, tuple[str, ...]]:
        return self.position, tuple(self.updates)


class StoredWindows(RuleBasedStateMachine):
    """A window and its forks in one store, with outages and crashes, against plain lists.

    Updates are never repeated, so a pair that a crashed run has left behind would be noticed.
    """

    def make_store(self) -> MemoryStore | DiskStore:
        return MemoryStore()

    @initialize(
        buffer=st.sampled_from([1, 2, 4, 16]),
        cache=st.sampled_from([0, 2, 4, 16]),
        late=st.booleans(),
    )
    def open_first(self, buffer: int, cache: int, late: bool) -> None:
        self.store = self.make_store()
        self.flaky = FlakyStore(self.store)
        self.options: dict[str, Any] = {"buffer": buffer, "cache": cache}
        self.late = late
        self.fed = 0
        self.saved: list[tuple[int, tuple[str, ...]]] = [(0, ())]
        self.lines: list[Line] = []
        self.open_window()

    def open_window(self) -> None:
        """Open the window in what might be a new process; go on from where the store has it."""
        self.executor = LateExecutor() if self.late else None
        window = open_window(
            CONCATENATION, self.flaky, "window", executor=self.executor, **self.options
        )
        state = (window.position, tuple(window.leaves()))
        assert state in self.saved
        self.saved = [state]
        self.lines = [Line(window, list(state[1]), state[0])]

    def take(self, operation: Callable[[], Any]) -> bool:
        """Do it; answer whether it was done. Only a store that is away may refuse."""
        try:
            operation()
        except StoreUnavailableError:
            assert self.flaky.away or self.flaky.loses_replies
            return False
        return True

    def note(self, line: Line) -> None:
        """The main window may from now on be resumed as it is now."""
        if line is self.lines[0]:
            self.saved.append(line.state())

    @rule(which=st.integers(0, 3), count=st.integers(1, 40))
    def insert(self, which: int, count: int) -> None:
        line = self.lines[which % len(self.lines)]
        for _ in range(count):
            self.fed += 1
            update = f"{self.fed},"
            if self.take(lambda update=update: line.window.insert(update)):
                line.updates.append(update)
                line.position += 1
                self.note(line)

    @rule(which=st.integers(0, 3), share=st.floats(0, 1))
    def evict(self, which: int, share: float) -> None:
        line = self.lines[which % len(self.lines)]
        count = round(share * len(line.updates))
        if self.take(lambda: line.window.evict(count)):
            del line.updates[:count]
            self.note(line)

    @rule(which=st.integers(0, 3), steps=st.integers(1, 30), size=st.integers(1, 40))
    def slide(self, which: int, steps: int, size: int) -> None:
        line = self.lines[which % len(self.lines)]
        by_search = two_argument(lambda total, old: total.size - old.size >= size)
        for step in range(steps):
            self.insert(which, 1)
            policy = last(size) if step % 2 else by_search
            if self.take(lambda policy=policy: line.window.slide(policy)):
                del line.updates[: max(0, len(line.updates) - size)]
                self.note(line)

    @precondition(lambda self: len(self.lines) < 4)
    @rule(which=st.integers(0, 3))
    def fork(self, which: int) -> None:
        line = self.lines[which % len(self.lines)]
        self.lines.append(Line(line.window.fork(), list(line.updates), line.position))

    @precondition(lambda self: len(self.lines) > 1)
    @rule(which=st.integers(0, 3))
    def drop(self, which: int) -> None:
        index = which % len(self.lines)
        self.lines[index].window.drop()
        with pytest.raises(WindowDroppedError):
            self.lines[index].window.insert("late")
        del self.lines[index]
        if index == 0:
            self.note(self.lines[0])

    @rule(which=st.integers(0, 3))
    def checkpoint(self, which: int) -> None:
        line = self.lines[which % len(self.lines)]
        if self.take(line.window.checkpoint) and line is self.lines[0]:
            self.saved = [line.state()]

    @rule(which=st.integers(0, 3))
    def read_all(self, which: int) -> None:
        line = self.lines[which % len(self.lines)]
        if self.take(lambda: assert_structure(line.window)):
            assert list(line.window.leaves()) == line.updates

    @rule()
    def work(self) -> None:
        if self.executor is not None:
            self.executor.work()

    @rule(loses_replies=st.booleans())
    def lose_store(self, loses_replies: bool) -> None:
        self.flaky.loses_replies = loses_replies
        self.flaky.away = not loses_replies

    @rule()
    def find_store(self) -> None:
        self.flaky.loses_replies = self.flaky.away = False

    @rule()
    def crash(self) -> None:
        self.find_store()
        self.open_window()
        assert set(self.flaky.epochs("window")) <= {
            each.number for each in stored(self.lines[0].window)._epoch.lineage()
        }

    @invariant()
    def answers_are_right(self) -> None:
        for line in self.lines:
            assert line.window.result() == "".join(line.updates)
            assert line.window.position == line.position
            assert len(line.window) == len(line.updates)

    @invariant()
    def little_is_held(self) -> None:
        for line in self.lines:
            assert stored(line.window).held() <= most_held(line.window, **self.options) + 4

    def teardown(self) -> None:
        if not getattr(self, "lines", None):
            return
        self.find_store()
        while len(self.lines) > 1:
            self.drop(1)
        window = self.lines[0].window
        for _ in range(2 + self.fed // self.options["buffer"]):
            window.checkpoint()
        assert self.store.count() <= 1 + pairs_needed(window)
        assert list(window.leaves()) == self.lines[0].updates
        window.drop()
        assert self.store.count() == 0


class WindowsOnDisk(StoredWindows):
    def make_store(self) -> DiskStore:
        self.folder = TemporaryDirectory()
        return DiskStore(self.folder.name)

    def teardown(self) -> None:
        super().teardown()
        self.store.close()
        self.folder.cleanup()


TestStoredWindows = StoredWindows.TestCase
TestStoredWindows.settings = settings(max_examples=60, stateful_step_count=30)
TestWindowsOnDisk = WindowsOnDisk.TestCase
TestWindowsOnDisk.settings = settings(max_examples=6, stateful_step_count=20)


def feed(window: AnyAmta, upto: int, size: int) -> list[Any]:
    """Feed numbers from the window's position on, keeping the newest `size`; answer the results."""
    return window.roll(range(window.position, upto), last(size))


def assert_span(window: AnyAmta, size: int) -> None:
    assert window.result() == (window.position - size, window.position - 1)


@pytest.fixture
def flaky() -> FlakyStore:
    return FlakyStore(MemoryStore())


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


class PlainCodec:
    """Somebody's own codec."""

    def encode(self, value: Any) -> bytes:
        return pickle.dumps(value, protocol=5)

    def decode(self, data: bytes) -> Any:
        return pickle.loads(data)


# What is held, fetched and deleted


def test_a_million_updates_leave_few_pairs_in_memory() -> None:
    size = 10**6
    window: AnyAmta = open_window(SUM, MemoryStore(), "large", codec=PlainCodec())
    pairs = stored(window)

    def check() -> None:
        root = window.root
        held = pairs.held() + len(root.tails) + len(root.stack) + 1
        assert held <= most_held(window, 1024, 1024)

    for number in range(size):
        window.insert(1)
        if number % 61 == 0:
            check()
    for _ in range(5_000):
        window.insert(1)
        window.evict()
        check()
    assert window.result() == size
    for count in (1, 1000, 2**18, 2**19):
        window.evict(count)
        check()
        for _ in range(100):
            window.insert(1)
            window.evict()
            check()
    assert window.result() == len(window) == size - 1 - 1000 - 2**18 - 2**19


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


def test_a_slow_store_slows_the_window_before_a_crash_would_throw_it_far_back() -> None:
    store = MemoryStore()
    window: AnyAmta = open_window(SPAN, store, "w", buffer=16, executor=LateExecutor())
    feed(window, 1000, 2)
    assert_span(window, 2)
    assert 1000 - 2 * 16 <= open_window(SPAN, store, "w").position < 1000


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


def test_a_store_in_threads_gives_the_same_answers(threads: ThreadPoolExecutor) -> None:
    store = MemoryStore()
    expected = Amta(SPAN)
    window: AnyAmta = open_window(SPAN, store, "w", buffer=64, cache=64, executor=threads)
    for size, upto in [(700, 3000), (50, 4000), (1500, 6000), (1, 6100), (300, 9000)]:
        assert feed(window, upto, size) == feed(expected, upto, size)
        assert stored(window).held() <= most_held(window, 64, 64)
        fork = window.fork()
        assert feed(fork, upto + 200, size) == feed(expected.fork(), upto + 200, size)
        fork.drop()
    window.checkpoint()
    resumed: AnyAmta = open_window(SPAN, store, "w", executor=threads)
    assert feed(resumed, 12_000, 300) == feed(expected, 12_000, 300)
    resumed.checkpoint()


# Resuming


def test_a_resumed_window_answers_to_the_bit_what_an_uninterrupted_one_does() -> None:
    values = np.random.default_rng(7).lognormal(sigma=8, size=6000).tolist()
    floats: Monoid[float, float, float] = Monoid("floats", 0.0, float, lambda a, b: a + b, float)
    expected = Amta(floats).roll(values, last(777))
    store = MemoryStore()
    results = [0.0] * len(values)
    starts = []
    for stop in (100, 1234, 1300, 4000, 6000):
        window = open_window(floats, store, "w", buffer=50, cache=20)
        starts.append(window.position)
        start = window.position
        results[start:stop] = window.roll(values[start:stop], last(777))
    assert results == expected
    for start, stop in zip(starts[1:], (100, 1234, 1300, 4000), strict=True):
        assert stop - 50 <= start <= stop, "not much has to be fed again"


def test_every_ready_made_monoid_resumes() -> None:
    store = MemoryStore()
    ready_made: dict[str, tuple[Monoid[Any, Any, Any], Callable[[int], Any]]] = {
        name: (getattr(m, name), float)
        for name in ("count", "sum", "mean", "min", "max", "range", "variance", "stddev", "any")
    }
    ready_made |= {
        "first": (m.first, str),
        "last": (m.last, str),
        "all": (m.all, bool),
        "time": (m.time, int),
        "arg_max": (m.arg_max, lambda n: (n % 7, n)),
        "geometric_mean": (m.geometric_mean, lambda n: n + 1.0),
        "longest_increasing_run": (m.longest_increasing_run, lambda n: n % 5),
        "top_k": (m.top_k(3), lambda n: n % 11),
        "histogram": (m.histogram([10, 20]), lambda n: n % 30),
        "collect": (m.collect, lambda n: {"n": n}),
        "approx_distinct": (m.approx_distinct(), lambda n: n % 13),
        "approx_quantiles": (m.approx_quantiles([0.5]), float),
        "product": (m.product(least=m.min, newest=m.last), lambda n: n % 17),
    }
    for name, (monoid, value) in ready_made.items():
        expected: AnyAmta = Amta(monoid)
        for stop in (25, 60):
            window: AnyAmta = open_window(monoid, store, name, buffer=2, cache=2)
            for number in range(window.position, stop):
                window.insert(value(number))
                window.slide(last(10))
            for number in range(expected.position, stop):
                expected.insert(value(number))
                expected.slide(last(10))
            assert window.result() == expected.result()
            window.checkpoint()


def test_array_states_come_back() -> None:
    arrays: Monoid[Any, Any, Any] = Monoid(
        "arrays", np.zeros(3), lambda n: np.array([n, -n, 0.1 * n]), np.add, lambda state: state
    )
    store = MemoryStore()
    window = open_window(arrays, store, "w", buffer=2, cache=2)
    expected = Amta(arrays)
    for number in range(40):
        for each in (window, expected):
            each.insert(number)
            each.slide(last(9))
        np.testing.assert_array_equal(window.result(), expected.result())
    window.checkpoint()
    np.testing.assert_array_equal(open_window(arrays, store, "w").result(), expected.result())


def test_what_a_crashed_run_wrote_beyond_its_root_is_not_read() -> None:
    store = MemoryStore()
    window: AnyAmta = open_window(CONCATENATION, store, "w", buffer=64)
    for number in range(33):
        window.insert(f"{number},")
    window.checkpoint()
    fork = window.fork()
    for number in range(33, 60):
        window.insert(f"lost {number},")
    fork.insert("fork,")
    fork.checkpoint()
    assert Key("w", 0, 0, 20) in store._records, "the fork has written out its base's pairs"
    resumed = open_window(CONCATENATION, store, "w", buffer=2, cache=16)
    assert resumed.position == 33
    for number in range(33, 100):
        resumed.insert(f"{number},")
    resumed.evict(30)
    assert list(resumed.leaves()) == [f"{number}," for number in range(30, 100)]
    assert_structure(resumed)


def test_windows_in_one_store_do_not_meet() -> None:
    store = MemoryStore()
    windows = [open_window(SPAN, store, name, buffer=4) for name in ("", "a", "a\0", "ü" * 999)]
    for size, window in enumerate(windows, 5):
        feed(window, 100 + size, size)
        window.checkpoint()
    windows[0].drop()
    for size, name in ((6, "a"), (7, "a\0"), (8, "ü" * 999)):
        window = open_window(SPAN, store, name)
        assert window.position == 100 + size
        assert_span(window, size)
    assert open_window(SPAN, store, "").position == 0


# Forks


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


# Refusals


def test_another_monoid_is_refused() -> None:
    store = MemoryStore()
    window = open_window(m.sum, store, "w")
    window.insert(1)
    window.checkpoint()
    with pytest.raises(StoreError, match="'w' was stored with the monoid 'sum', not 'max'; open"):
        open_window(m.max, store, "w")
    assert open_window(m.sum, store, "w").result() == 1


@pytest.mark.parametrize(
    ("stored_with", "opened_with"),
    [
        (m.top_k(1), m.top_k(2)),
        (m.histogram([1, 2]), m.histogram([1, 3])),
        (m.approx_distinct(4), m.approx_distinct(5)),
        (m.approx_quantiles([0.5], k=100), m.approx_quantiles([0.5], k=200)),
        (m.product(x=m.min), m.product(x=m.max)),
        (m.product(x=m.top_k(1)), m.product(x=m.top_k(2))),
    ],
    ids=repr,
)
def test_a_monoid_with_other_parameters_is_refused(
    stored_with: Monoid[Any, Any, Any], opened_with: Monoid[Any, Any, Any]
) -> None:
    store = MemoryStore()
    window = open_window(stored_with, store, "w")
    window.insert(1)
    window.checkpoint()
    with pytest.raises(StoreError, match="was stored with the monoid"):
        open_window(opened_with, store, "w")
    assert open_window(stored_with.over(int), store, "w").position == 1


def test_a_name_is_a_string() -> None:
    with pytest.raises(InvalidArgumentError, match="window is 7; give its name"):
        open_window(m.sum, MemoryStore(), 7)  # type: ignore[arg-type]


def test_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    with monkeypatch.context() as newer:
        newer.setattr("holdfast.windows.stores.saved.FORMAT", 2)
        open_window(m.sum, store, "w").checkpoint()
    with pytest.raises(StoreError, match="stored in format 2, this version of Holdfast reads 1"):
        open_window(m.sum, store, "w")


def test_a_damaged_root_is_reported() -> None:
    store = MemoryStore()
    open_window(m.sum, store, "w").checkpoint()
    for record in (b"", b"\x01", b"\x07 another version", b"\x01\0\0\0\0payload"):
        store.write({root_key("w"): record}, [])
        with pytest.raises(StoreCorruptError, match="window 'w': its root cannot be read"):
            open_window(m.sum, store, "w")


def test_a_lost_pair_is_reported() -> None:
    store = MemoryStore()
    window: AnyAmta = open_window(SPAN, store, "w", buffer=2, cache=0)
    feed(window, 64, 64)
    window.checkpoint()
    del store._records[Key("w", 0, 2, 2)]
    with pytest.raises(StoreCorruptError, match="level 2, position 2: there is no such record"):
        window.evict(16)
    assert window.result() == (0, 63)


def test_states_that_cannot_be_stored_are_refused_and_change_nothing() -> None:
    functions: Monoid[Any, Any, Any] = Monoid(
        "any", None, lambda v: v, lambda a, b: b, lambda state: state
    )
    window = open_window(functions, MemoryStore(), "w")
    window.insert(1)
    window.insert(print)
    with pytest.raises(InvalidValueError, match="allow="):
        window.insert(3)
    assert (window.position, window.result()) == (2, print)
    window.evict(2)
    window.insert(3)
    assert window.result() == 3

    with pytest.raises(InvalidValueError):
        open_window(Monoid("bad", print, *[lambda *v: v] * 3), MemoryStore(), "w")


@pytest.mark.parametrize("options", [{"buffer": 0}, {"cache": -1}])
def test_sizes_that_make_no_sense_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError, match="buffer of at least 1"):
        open_window(m.sum, MemoryStore(), "w", **options)


@pytest.mark.parametrize("size", ["buffer", "cache"])
def test_a_size_that_is_no_integer_is_refused(size: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{size}: 2.5 is no integer"):
        open_window(m.sum, MemoryStore(), "w", **{size: 2.5})


def test_a_window_that_is_empty_time_and_again_is_saved_as_well() -> None:
    store = MemoryStore()
    window = open_window(SUM, store, "window", buffer=8)
    for number in range(100):
        window.insert(number)
        window.evict()
    assert open_window(SUM, store, "window").position >= 100 - 2 * 8
