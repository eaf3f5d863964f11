"""AMTA: the digest's invariants and worked examples, counted costs, forks and garbage."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log2
from random import Random
from typing import Any

import pytest

from holdfast.errors import WindowDroppedError
from holdfast.windows import HOLE, Amta, Policy
from holdfast.windows.pairs import MemoryPairs, Pair, Root, Written
from holdfast.windows.policies import last, two_argument
from tests.windows.counting import CONCATENATION, SPAN, SUM, Counted, filled
from tests.windows.invariants import assert_amta
from tests.windows.tracing import lines_executed

LARGE = 2**20


class WriteOncePairs:
    """Interior pairs that may be written once and must be written before they are read."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[int, int], Pair[Any]] = {}
        self._oldest = 0

    def read(self, level: int, position: int) -> Pair[Any]:
        assert (position + 1) << level + 1 > self._oldest, "read after its release"
        return self._pairs[level, position]

    def write(self, written: list[Written[Any]], root: Root[Any]) -> None:
        for level, position, pair in written:
            assert (level, position) not in self._pairs
            self._pairs[level, position] = pair

    def release(self, oldest: int) -> None:
        assert oldest >= self._oldest
        self._oldest = oldest

    def fork(self, root: Root[Any]) -> WriteOncePairs:
        raise NotImplementedError

    def drop(self) -> None:
        raise NotImplementedError


class CountedReads(MemoryPairs[Any]):
    """Interior pairs in memory, with a count of how many were read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def read(self, level: int, position: int) -> Pair[Any]:
        self.reads += 1
        return super().read(level, position)


class SpanPairs:
    """The interior pairs of a window of consecutive numbers, made up when they are read."""

    def read(self, level: int, position: int) -> Pair[Any]:
        return span_of(level, 2 * position), span_of(level, 2 * position + 1)

    def write(self, written: list[Written[Any]], root: Root[Any]) -> None:
        for level, position, pair in written:
            assert pair == self.read(level, position)

    def release(self, oldest: int) -> None:
        pass

    def fork(self, root: Root[Any]) -> SpanPairs:
        return self

    def drop(self) -> None:
        pass

    def checkpoint(self, root: Root[Any]) -> None:
        pass


def span_of(level: int, element: int) -> tuple[int, int]:
    return element << level, ((element + 1) << level) - 1


def span_root(oldest: int, end: int) -> Root[Any]:
    """The root of a window of the numbers from `oldest` up to `end`, from these two alone."""
    root = Root[Any](oldest=oldest, next=end)
    level, last = 0, end - 1
    while True:
        older, newer = (last & ~1) >= oldest >> level, last & 1
        root.tails.append(
            (
                span_of(level, last & ~1) if older else HOLE,
                span_of(level, last) if newer else HOLE,
            )
        )
        if oldest >> level + 1 == last >> 1:
            break
        level, last = level + 1, (last >> 1) - 1
    root.end = (last + 1) << level
    root.front = (oldest, root.end - 1)
    root.back = (root.end, end - 1) if root.end < end else HOLE
    for below in range(level, -1, -1):
        cut = ((oldest >> below) + 1) << below
        if not oldest >> below & 1 and cut < root.end:
            root.stack.append((cut, root.end - 1))
    return root


def gone_before(number: int) -> Policy:
    """What is older than this number goes, in the two-argument form."""
    return two_argument(lambda _total, old: old.value[1] < number)


def starts_at(number: int) -> Policy:
    """The same as a window invariant."""
    return Policy(window_invariant=lambda window: window.value[0] >= number)


def both_invariants(number: int) -> Policy:
    """The same as an eviction invariant that looks at all it is given, and a window invariant."""
    return Policy(
        window_invariant=lambda window: window.value[0] >= number - 1,
        eviction_invariant=lambda candidate, after, before: (
            candidate.value[1] < number and after.value[1] == before.value[1]
        ),
    )


def window_first(number: int) -> Policy:
    """The same where the window invariant asks for more than the eviction invariant."""
    return Policy(
        window_invariant=lambda window: window.value[0] >= number,
        eviction_invariant=lambda candidate, after, before: (
            candidate.value[1] < number - 2 and after.value[1] == before.value[1]
        ),
    )


@pytest.mark.parametrize("seed", range(8))
def test_the_structure_is_right_after_every_step_of_a_random_run(seed: int) -> None:
    rng = Random(seed)
    window = Amta(SPAN, pairs=WriteOncePairs())
    number = 0
    for _ in range(250):
        size = len(window)
        step = rng.choice(["insert", "burst", "evict", "bulk", "slide", "slide"])
        if step == "insert":
            window.insert(number)
            number += 1
        elif step == "burst":
            for _ in range(rng.randrange(1, 60)):
                window.insert(number)
                number += 1
        elif step == "evict" and size:
            window.evict()
        elif step == "bulk":
            window.evict(rng.randrange(rng.choice([size, min(size, 12)]) + 1))
        elif step == "slide" and size > 1:
            cut = number - size + rng.randrange(size)
            policy = rng.choice([gone_before, starts_at, both_invariants, window_first])(cut)
            assert window.slide(policy) == cut - (number - size)
        assert_amta(window)
        if size := len(window):
            assert shown(window.root) == shown(span_root(number - size, number))
        assert window.position == number
        assert window.evicted == number - len(window)
        assert window.result() == ((window.evicted, number - 1) if len(window) else ())


def shown(root: Root[Any]) -> Root[Any]:
    """A root without what it holds of elements that have left or gone stale."""
    root = root.copy()
    top = len(root.tails) - 1
    first = root.oldest >> top + 1 << 1
    older, newer = root.tails[top]
    root.tails[top] = (
        HOLE if first << top < root.oldest else older,
        HOLE if first + 1 << top < root.oldest else newer,
    )
    return root


def test_figure_4_4() -> None:
    window = filled(Amta(SUM), [1, 2, 1, 2, 1, 2, 1, 2])
    assert window.forest() == [[(1, 2)] * 4, [(3, 3), (3, HOLE)], [(6, HOLE)]]
    assert (window.root.front, window.root.back) == (6, 6)
    assert window.root.stack == [3, 5]
    window.insert(1)
    assert (window.root.front, window.root.back) == (6, 7)
    window.evict()
    assert (window.root.front, window.root.back) == (5, 7)
    assert window.result() == 12


def test_figure_4_5() -> None:
    window = filled(Amta(SUM), [1, 3, 2, 1, 2, 1, 1, 0, 3, 1])
    assert window.result() == 15
    assert (window.root.front, window.root.back) == (7, 8)
    assert window.root.stack == [3, 6]
    window.evict()
    assert (window.root.front, window.root.back, window.result()) == (6, 8, 14)
    assert window.forest()[0][0] == (HOLE, 3)
    window.evict()
    assert (window.root.front, window.root.back, window.result()) == (3, 8, 11)
    assert window.root.stack == [1]
    assert window.forest()[0][0] == (2, 1)
    assert window.forest()[1][0] == (HOLE, 3)


def test_level_boundaries_before_and_after_a_tree_merges() -> None:
    window = filled(Amta(CONCATENATION), "abcd")
    assert window.forest() == [[("a", "b"), ("c", "d")], [("ab", HOLE)]]
    window.insert("e")
    assert window.forest() == [[("a", "b"), ("c", "d"), ("e", HOLE)], [("ab", "cd")]]
    window.evict(3)
    assert window.forest() == [[(HOLE, "d"), ("e", HOLE)], [(HOLE, "cd")]]
    assert (window.root.front, window.root.back) == ("d", "e")


def slide_costs(size: int, slides: int) -> list[int]:
    """The combines of each of some steps of insert, slide and result at a constant size."""
    counted = Counted(SPAN)
    window = filled(Amta(counted.monoid), range(size))
    policy = last(size)
    costs = []
    counted.spent()
    for number in range(size, size + slides):
        window.insert(number)
        window.slide(policy)
        assert window.result() == (number - size + 1, number)
        costs.append(counted.spent())
    return costs


@pytest.mark.parametrize("power", range(4, 17))
def test_a_slide_costs_four_combines_on_average_and_logarithmically_many_at_worst(
    power: int,
) -> None:
    size = 2**power
    costs = slide_costs(size, slides=max(2 * size, 1000) if power < 15 else size)
    assert sum(costs) / len(costs) <= 4.1
    assert max(costs) <= 3 * power


@pytest.mark.parametrize("offset", [-1, 1])
@pytest.mark.parametrize("power", range(4, 13))
def test_a_slide_beside_a_power_of_two_is_no_dearer(power: int, offset: int) -> None:
    size = 2**power + offset
    costs = slide_costs(size, slides=4 * size)
    assert sum(costs) / len(costs) <= 4.1
    assert max(costs) <= 3 * log2(size)


def test_a_policy_that_searches_costs_a_constant_number_of_combines_on_average() -> None:
    counted = Counted(SPAN)
    size = 2**10
    window = filled(Amta(counted.monoid), range(size))
    counted.spent()
    for number in range(size, 5 * size):
        window.insert(number)
        assert window.slide(gone_before(number - size + 1)) == 1
    assert counted.spent() / (4 * size) <= 8


class Large:
    """A window of 2^20 consecutive numbers, forked for each look at it."""

    def __init__(self) -> None:
        self.counted = Counted(SPAN)
        self.base = filled(Amta(self.counted.monoid, pairs=CountedReads()), range(LARGE))
        self.starts = [self.base, self._slid(1), self._slid(777), self._slid(2**12 - 1)]

    def _slid(self, by: int) -> Amta[Any, Any, Any]:
        fork = self.base.fork()
        for number in range(LARGE, LARGE + by):
            fork.insert(number)
        fork.evict(by)
        return fork

    def reads(self) -> int:
        return self.base._pairs.reads  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def large() -> Large:
    return Large()


def bulk_counts() -> list[int]:
    rng = Random(20)
    edges = {0, 1, 2, 3, LARGE - 2, LARGE - 1}
    edges |= {2**power + offset for power in range(2, 20) for offset in (-1, 0, 1)}
    return sorted(edges | {rng.randrange(LARGE) for _ in range(200)})


def test_bulk_eviction_by_count_costs_at_most_130_combines(large: Large) -> None:
    for start in large.starts:
        for count in [*bulk_counts(), LARGE]:
            fork = start.fork()
            large.counted.spent()
            fork.evict(count)
            assert large.counted.spent() <= 60
            oldest, end = start.evicted + count, start.position
            assert fork.result() == ((oldest, end - 1) if oldest < end else ())
            fork.drop()


@pytest.mark.parametrize("form", [gone_before, starts_at, both_invariants, window_first])
def test_bulk_eviction_by_policy_costs_at_most_130_combines(
    large: Large, form: Callable[[int], Policy]
) -> None:
    for start in large.starts:
        for count in bulk_counts():
            fork = start.fork()
            large.counted.spent()
            assert fork.slide(form(start.evicted + count)) == count
            assert large.counted.spent() <= 130
            assert fork.result() == (start.evicted + count, start.position - 1)
            fork.drop()


@pytest.mark.parametrize("form", [gone_before, starts_at, both_invariants, window_first])
def test_bulk_eviction_from_the_worst_of_starts_costs_at_most_130_combines(
    form: Callable[[int], Policy],
) -> None:
    """That the dearest start is 7/4 of the size was found by trying all starts of small windows."""
    counted = Counted(SPAN)
    rng = Random(7)
    for start in [7 * 2**18, 2**21 - 2, *(rng.randrange(2**24) for _ in range(20))]:
        for count in bulk_counts():
            root = span_root(start, start + LARGE)
            window = Amta(counted.monoid, pairs=SpanPairs(), root=root)
            counted.spent()
            assert window.slide(form(start + count)) == count
            assert counted.spent() <= 116
            assert window.result() == (start + count, start + LARGE - 1)


def test_bulk_eviction_by_count_from_the_worst_of_starts_costs_at_most_54_combines() -> None:
    """That the dearest is two from 2 before a power of two was found as above."""
    counted = Counted(SPAN)
    rng = Random(8)
    dearest = 0
    for start in [2**19 - 2, 7 * 2**18, 2**21 - 2, *(rng.randrange(2**24) for _ in range(20))]:
        for count in [2, *bulk_counts()]:
            root = span_root(start, start + LARGE)
            window = Amta(counted.monoid, pairs=SpanPairs(), root=root)
            counted.spent()
            window.evict(count)
            dearest = max(dearest, counted.spent())
            assert window.result() == (start + count, start + LARGE - 1)
    assert dearest == 54


def test_bulk_eviction_cost_follows_the_number_evicted(large: Large) -> None:
    costs = []
    for power in (0, 3, 6, 9):
        fork = large.base.fork()
        large.counted.spent()
        fork.slide(gone_before(2**power))
        costs.append(large.counted.spent())
        fork.drop()
    assert costs == sorted(costs)
    assert costs[0] <= 9
    assert costs[-1] <= 50


@pytest.mark.parametrize("count", [1, 1000, 2**19 - 1, 2**19, 2**19 + 1, LARGE - 1, LARGE])
def test_no_loop_over_the_number_evicted(large: Large, count: int) -> None:
    for start in large.starts:
        by_count, by_policy = start.fork(), start.fork()
        before = large.reads()
        assert lines_executed(partial(by_count.evict, count)) < 2000
        assert large.reads() - before <= 2 * 20
        if count < LARGE:
            slide = partial(by_policy.slide, starts_at(start.evicted + count))
            before = large.reads()
            assert lines_executed(slide) < 5000
            assert large.reads() - before <= 4 * 20
        by_count.drop()
        by_policy.drop()


def test_the_first_steps_after_a_bulk_eviction_do_not_pay_for_it(large: Large) -> None:
    fork = large.base.fork()
    fork.evict(2**19)
    for number in range(LARGE, LARGE + 50):
        assert lines_executed(partial(fork.insert, number)) < 1000
        assert lines_executed(fork.evict) < 1000
    fork.drop()


@pytest.mark.parametrize("power", range(4, 13))
def test_a_fork_copies_logarithmically_many_states(power: int) -> None:
    size = 2**power
    window = filled(Amta(SPAN), range(size))
    for number in range(size, 3 * size):
        window.insert(number)
        window.evict()
        fork = window.fork()
        copied = 2 * len(fork.root.tails) + len(fork.root.stack) + 2
        assert copied <= 4 * power
        assert fork._pairs.held() == 0  # type: ignore[attr-defined]
        fork.drop()


def test_a_fork_and_its_base_do_not_disturb_each_other() -> None:
    base = filled(Amta(CONCATENATION), "abcdefghijklm")
    fork = base.fork()
    for value in "nopqrstuvwxyz":
        fork.insert(value)
        base.insert(value.upper())
        fork.evict()
        base.evict(1)
        assert_amta(fork)
        assert_amta(base)
    assert fork.result() == "nopqrstuvwxyz"
    assert base.result() == "NOPQRSTUVWXYZ"


def test_forks_of_forks_outlive_what_they_came_from() -> None:
    base = filled(Amta(SPAN), range(100))
    child = base.fork()
    for number in range(100, 150):
        child.insert(number)
    grandchild = child.fork()
    base.drop()
    child.drop()
    for number in range(150, 400):
        grandchild.insert(number)
        grandchild.evict()
        assert_amta(grandchild)
    assert grandchild.result() == (250, 399)


def test_a_long_line_of_forks_whose_bases_are_dropped_goes_on() -> None:
    window = filled(Amta(SPAN), range(50))
    for number in range(50, 3000):
        fork = window.fork()
        window.drop()
        window = fork
        window.insert(number)
        window.evict()
        assert window.result() == (number - 49, number)


def test_every_use_of_a_dropped_window_is_refused() -> None:
    base = filled(Amta(SPAN), range(5))
    fork = base.fork()
    base.drop()
    uses: list[Callable[[], object]] = [
        base.result,
        base.aggregate,
        base.fork,
        base.drop,
        base.evict,
        lambda: base.evict(0),
        lambda: base.insert(5),
        lambda: base.slide(last(1)),
        lambda: base.roll([5], last(1)),
        lambda: list(base.leaves()),
        base.forest,
    ]
    for use in uses:
        with pytest.raises(WindowDroppedError, match="fork"):
            use()
    assert fork.result() == (0, 4)
