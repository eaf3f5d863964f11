"""Windows in a store: the same behaviour as in memory, whatever the store does."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.disk import DiskStore
from holdfast.errors import (
    InvalidArgumentError,
    InvalidValueError,
    StoreUnavailableError,
    WindowDroppedError,
)
from holdfast.windows import Amta, Monoid
from holdfast.windows import monoids as m
from holdfast.windows.policies import last, two_argument
from holdfast.windows.stores.store import MemoryStore
from holdfast.windows.stores.stored import open_window
from tests.windows.counting import CONCATENATION, SPAN, SUM
from tests.windows.invariants import assert_structure
from tests.windows.stores.faulty import FlakyStore, LateExecutor, most_held, pairs_needed
from tests.windows.stores.spans import AnyAmta, assert_span, feed, stored


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


# Refusals


def test_a_name_is_a_string() -> None:
    with pytest.raises(InvalidArgumentError, match="window is 7; give its name"):
        open_window(m.sum, MemoryStore(), 7)  # type: ignore[arg-type]


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
