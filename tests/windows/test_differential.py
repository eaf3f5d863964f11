"""The one differential suite: every algorithm, step by step, against a plain list of updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from random import Random
from string import ascii_letters
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.errors import WindowDroppedError
from holdfast.windows import (
    Amta,
    Daba,
    LogMta,
    Part,
    Policy,
    Recalculation,
    ShardWindow,
    TwoStacks,
)
from holdfast.windows import monoids as m
from holdfast.windows.policies import hopping, last, two_argument
from tests.windows.counting import ALL, CONCATENATION, PEAK, SPAN, Any3, answer
from tests.windows.invariants import assert_structure

ALGORITHMS = [Recalculation, TwoStacks, Daba, LogMta, Amta]
SIZES = sorted({1, 2, *(2**power + offset for power in range(2, 11) for offset in (-1, 0, 1))})


@dataclass(frozen=True)
class Rule:
    """A slide rule by sizes, so that what must go is known without any search."""

    keep: int | None
    """Window invariant: at most so many stay; -1 accepts no window at all."""
    go: int | None
    """Eviction invariant: so many go."""
    keep_newest: bool = True
    two_arguments: bool = False

    def due(self, size: int) -> int:
        by_window = 0 if self.keep is None else size - self.keep
        return max(0, min(size - self.keep_newest, max(by_window, self.go or 0)))

    def policy(self, check: Callable[..., None]) -> Policy:
        """The policy, with `check(candidate, after, before)` called on all it is asked about."""
        keep, go = self.keep, self.go

        def window_invariant(window: Part) -> bool:
            check(None, window, None)
            return window.size <= keep

        def eviction_invariant(candidate: Part, after: Part, before: Part) -> bool:
            check(candidate, after, before)
            return candidate.size <= go

        def rule(total: Part, old: Part) -> bool:
            check(old, None, total)
            return old.size <= go

        if self.two_arguments:
            return two_argument(rule, keep_newest=self.keep_newest)
        return Policy(
            window_invariant=None if keep is None else window_invariant,
            eviction_invariant=None if go is None else eviction_invariant,
            keep_newest=self.keep_newest,
        )


counts = st.integers(0, 40)


def amounts(size: int) -> st.SearchStrategy[int]:
    """Any number up to `size`, small ones more often."""
    return st.one_of(st.integers(0, min(size, 4)), st.integers(0, size))


def rules(size: int) -> st.SearchStrategy[Rule]:
    """Rules of every form that say something about a window of this size."""
    go, either = amounts(size + 1), st.booleans()
    keep = go.map(lambda gone: size - gone)
    return st.one_of(
        st.builds(Rule, keep=keep, go=st.none(), keep_newest=either),
        st.builds(Rule, keep=st.none(), go=go, keep_newest=either, two_arguments=either),
        st.builds(Rule, keep=keep, go=go, keep_newest=either),
    )


@dataclass
class Line:
    """One history: the updates that are in the window, and every algorithm's window of them."""

    monoid: Any3
    updates: list[Any] = field(default_factory=list)
    windows: list[Any] = field(default_factory=list)

    def insert(self, value: Any) -> None:
        self.updates.append(value)
        for window in self.windows:
            window.insert(value)

    def evict(self, count: int) -> None:
        del self.updates[:count]
        for window in self.windows:
            window.evict(count)

    def slide(self, policy: Policy, due: int, *, debug: bool = False) -> None:
        assert [window.slide(policy, debug=debug) for window in self.windows] == [due] * len(
            self.windows
        )
        del self.updates[:due]

    def check_parts(self, candidate: Part | None, after: Part | None, before: Part | None) -> None:
        """What a policy is asked about must be exact stretches of the window."""
        size = len(self.updates)
        if before is not None:
            assert (before.size, before.value) == (size, answer(self.monoid, self.updates))
        if candidate is not None:
            gone = candidate.size
            assert 1 <= gone <= size
            assert candidate.value == answer(self.monoid, self.updates[:gone])
            assert after is None or after.size == size - gone
        if after is not None:
            assert after.value == answer(self.monoid, self.updates[size - after.size :])

    def fork(self) -> Line:
        """AMTA forks; the others, which cannot, are filled anew."""
        fork = Line(self.monoid, list(self.updates))
        for window in self.windows:
            if isinstance(window, Amta):
                fork.windows.append(window.fork())
            else:
                fork.windows.append(type(window)(self.monoid))
                for value in self.updates:
                    fork.windows[-1].insert(value)
        return fork

    def drop(self) -> None:
        for window in self.windows:
            if isinstance(window, Amta):
                window.drop()
                for use in (window.result, window.fork, window.drop, window.evict):
                    with pytest.raises(WindowDroppedError):
                        use()

    def assert_equal(self) -> None:
        states = [self.monoid.lift(value) for value in self.updates]
        expected = answer(self.monoid, self.updates)
        for window in self.windows:
            assert len(window) == len(states)
            assert window.result() == expected
            assert list(window.leaves()) == states
            assert_structure(window)


class WindowsAgree(RuleBasedStateMachine):
    """Several lines forked from each other, one step on one of them at a time."""

    monoid: ClassVar[Any3]
    updates: ClassVar[Sequence[Any]]
    """Taken one after the other, over and over: nothing is gained by drawing each of them."""
    MOST_LINES = 4

    def __init__(self) -> None:
        super().__init__()
        self.lines = [Line(self.monoid, [], [make(self.monoid) for make in ALGORITHMS])]
        self.at = 0
        self.taken = 0

    def take(self, count: int) -> list[Any]:
        first, self.taken = self.taken, self.taken + count
        return [self.updates[place % len(self.updates)] for place in range(first, self.taken)]

    @property
    def line(self) -> Line:
        return self.lines[self.at]

    @initialize(passed=counts, inserted=counts)
    def start(self, passed: int, inserted: int) -> None:
        """Begin at any absolute position, empty or not."""
        self.insert(passed)
        self.line.evict(passed)
        self.insert(inserted)

    @rule(count=st.one_of(st.just(1), counts))
    def insert(self, count: int) -> None:
        for value in self.take(count):
            self.line.insert(value)

    @precondition(lambda self: self.line.updates)
    @rule()
    def evict_one(self) -> None:
        self.line.evict(1)

    @rule(data=st.data())
    def evict_many(self, data: st.DataObject) -> None:
        self.line.evict(data.draw(amounts(len(self.line.updates))))

    @rule(data=st.data(), debug=st.booleans())
    def slide(self, data: st.DataObject, debug: bool) -> None:
        size = len(self.line.updates)
        rule = data.draw(rules(size))
        self.line.slide(rule.policy(self.line.check_parts), rule.due(size), debug=debug)

    @rule(spare=st.integers(-10, 5))
    def slide_to_last(self, spare: int) -> None:
        length = len(self.line.updates)
        size = max(1, length + spare)
        self.line.slide(last(size), max(0, length - size))

    @rule(data=st.data(), spare=st.integers(-5, 5))
    def hop(self, data: st.DataObject, spare: int) -> None:
        length = len(self.line.updates)
        size = max(1, length + spare)
        hop = max(1, data.draw(amounts(size)))
        self.line.slide(hopping(size, hop), min(hop, length - 1) if length > size else 0)

    @rule(spare=st.integers(-10, 10), count=counts)
    def roll(self, spare: int, count: int) -> None:
        line, values = self.line, self.take(count)
        size = max(1, len(line.updates) + spare)
        expected = []
        for value in values:
            line.updates = [*line.updates, value][-size:]
            expected.append(answer(self.monoid, line.updates))
        for window in line.windows:
            assert list(window.roll(values, last(size))) == expected

    @precondition(lambda self: len(self.lines) < self.MOST_LINES)
    @rule(go_there=st.booleans())
    def fork(self, go_there: bool) -> None:
        self.lines.append(self.line.fork())
        if go_there:
            self.at = len(self.lines) - 1

    @precondition(lambda self: len(self.lines) > 1)
    @rule(which=st.integers(0, MOST_LINES - 1))
    def switch(self, which: int) -> None:
        self.at = which % len(self.lines)

    @precondition(lambda self: len(self.lines) > 1)
    @rule(which=st.integers(0, MOST_LINES - 1))
    def drop(self, which: int) -> None:
        self.lines.pop(which % len(self.lines)).drop()
        self.at %= len(self.lines)

    @invariant()
    def all_equal(self) -> None:
        for line in self.lines:
            line.assert_equal()


class Concatenation(WindowsAgree):
    monoid = CONCATENATION
    updates = ascii_letters


class ConcatenationWithEmpties(WindowsAgree):
    monoid = CONCATENATION
    updates = Random(1).choices(["", "a", "b"], weights=[2, 1, 1], k=211)


class Peak(WindowsAgree):
    monoid = PEAK
    updates = Random(2).choices([0, 1, 2], weights=[4, 2, 1], k=211)


class AllTrue(WindowsAgree):
    monoid = ALL
    updates = Random(3).choices([True, False], weights=[9, 1], k=211)


for machine, share in ((Concatenation, 2), (ConcatenationWithEmpties, 1), (Peak, 1), (AllTrue, 1)):
    machine.TestCase.settings = settings(
        max_examples=share * settings.default.max_examples // 3, stateful_step_count=40
    )

TestConcatenation = Concatenation.TestCase
TestConcatenationWithEmpties = ConcatenationWithEmpties.TestCase
TestPeak = Peak.TestCase
TestAllTrue = AllTrue.TestCase


class Numbers:
    """A window over consecutive numbers, so that its right result is (oldest, newest)."""

    def __init__(self, algorithm: Callable[[Any3], Any], first: int = 0) -> None:
        self.window = algorithm(SPAN)
        self.oldest = self.next = first

    def insert(self, count: int = 1) -> None:
        for _ in range(count):
            self.window.insert(self.next)
            self.next += 1

    def evict(self, count: int = 1) -> None:
        self.window.evict(count)
        self.oldest += count

    def check(self) -> None:
        assert len(self.window) == self.next - self.oldest
        expected = (self.oldest, self.next - 1) if self.oldest < self.next else ()
        assert self.window.result() == expected


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_alternating_around_a_size_stays_right(algorithm: Any, size: int) -> None:
    numbers = Numbers(algorithm)
    numbers.insert(size)
    numbers.check()
    for _ in range(6):
        numbers.evict()
        numbers.check()
        numbers.insert()
        numbers.check()
        numbers.insert()
        numbers.check()
        numbers.evict()
        numbers.check()
    assert_structure_unless_large(numbers.window)
    for count in (size // 2, size - size // 2):
        numbers.evict(count)
        numbers.check()


@pytest.mark.parametrize("start", range(9))
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_emptied_window_refills_from_any_absolute_position(algorithm: Any, start: int) -> None:
    for size in (1, 2, 3, 4, 5, 7, 8, 9, 16, 17):
        numbers = Numbers(algorithm)
        numbers.insert(start)
        numbers.evict(start)
        numbers.check()
        for _ in range(3):
            for _ in range(size):
                numbers.insert()
                numbers.check()
                assert_structure(numbers.window)
            while numbers.oldest < numbers.next:
                numbers.evict()
                numbers.check()
                assert_structure(numbers.window)


@pytest.mark.parametrize("size", [size for size in SIZES if size <= 65])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_bulk_eviction_of_a_window_is_right(algorithm: Any, size: int) -> None:
    for count in range(size + 1):
        numbers = Numbers(algorithm)
        numbers.insert(size)
        numbers.evict(count)
        numbers.check()
        numbers.insert(2)
        numbers.check()


class ScalarWindows:
    """One scalar window per key, moved by time as a shard window is."""

    def __init__(self, algorithm: Any, monoid: Any3, size: int) -> None:
        self._make = lambda: algorithm(
            m.product(time=m.time.over(itemgetter(0)), value=monoid.over(itemgetter(1)))
        )
        self._windows: dict[Any, Any] = {}
        self._size = size

    def insert(self, time: int, key: Any, value: Any) -> None:
        self._windows.setdefault(key, self._make()).insert((time, value))

    def results_at(self, end: int) -> dict[Any, Any]:
        """The answers of the keys that have updates in the window that ends here."""
        gone = two_argument(
            lambda _total, old: old.value.time < end - self._size, keep_newest=False
        )
        for window in self._windows.values():
            window.slide(gone)
        return {key: each.result().value for key, each in self._windows.items() if len(each)}


ROWS = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from("abc"), st.sampled_from(["", "x", "y", "z"])),
    max_size=40,
)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("monoid", [CONCATENATION, m.last, m.max, m.count], ids=repr)
@settings(max_examples=25)
@given(rows=ROWS, size=st.integers(1, 12), slide=st.integers(1, 12), data=st.data())
def test_a_shard_window_equals_a_scalar_window_per_key(
    algorithm: Any,
    monoid: Any3,
    rows: list[tuple[int, str, str]],
    size: int,
    slide: int,
    data: st.DataObject,
) -> None:
    slide = min(size, slide)
    shard = ShardWindow({"answer": (monoid, "value")}, size=size, slide=slide)
    scalars = ScalarWindows(algorithm, monoid, size)
    rows = sorted(rows, key=lambda row: row[0])
    waiting, added = list(rows), 0
    for watermark in [*sorted(data.draw(st.lists(st.integers(0, 60), max_size=6))), 60]:
        taken = [row for row in rows[added:] if row[0] < watermark + 5]
        added += len(taken)
        times, keys, values = ([row[field] for row in taken] for field in range(3))
        # Rows of a key in a pane are combined by time, whatever order they come in.
        assert not len(shard.add(times, keys, value=np.array(values, dtype=object)))
        for emission in shard.advance(watermark):
            while waiting and waiting[0][0] < emission.end:
                time, key, value = waiting.pop(0)
                scalars.insert(time, key, value)
            answers = dict(zip(emission.keys.tolist(), emission["answer"].tolist(), strict=True))
            assert answers == scalars.results_at(emission.end)
    assert not waiting


def assert_structure_unless_large(window: Any) -> None:
    """The checks of a structure take quadratic time."""
    if len(window) <= 130:
        assert_structure(window)
