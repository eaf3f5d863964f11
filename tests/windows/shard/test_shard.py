"""The shard window against rows grouped by key and reduced one by one, and its edges."""

import math
import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial, reduce
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from holdfast.errors import (
    InvalidArgumentError,
    InvalidValueError,
    StoreUnavailableError,
    TimeOrderError,
    WindowDroppedError,
)
from holdfast.windows import columns as c
from holdfast.windows import monoids as m
from holdfast.windows.amta import Amta
from holdfast.windows.monoid import Monoid
from holdfast.windows.pairs import MemoryPairs
from holdfast.windows.policies import last
from holdfast.windows.shard import Emission, ShardWindow
from holdfast.windows.shard.tables import Table, Tables
from holdfast.windows.stores.store import MemoryStore
from holdfast.windows.stores.stored import open_window

concat = Monoid("concat", "", lift=str, combine=lambda older, newer: older + newer, lower=str)

SPEC = {
    "n": (c.COUNT, None, m.count),
    "total": (c.SUM, "whole", m.sum),
    "average": (c.MEAN, "part", m.mean),
    "spread": (c.VARIANCE, "part", m.variance),
    "least": (c.MIN, "part", m.min),
    "newest": (c.LAST, "word", m.last),
    "words": (concat, "word", concat),
    "list": (m.collect, "whole", m.collect),
}


@dataclass
class Model:
    """What a shard window promises, from the rows themselves."""

    size: int
    slide: int
    offset: int
    watermark: float = -math.inf
    rows: list[tuple[int, int, int, int, Any, dict[str, Any]]] = field(default_factory=list)
    """Pane, call, time, position, key and values of each row that was taken."""
    calls: int = 0

    def pane(self, time: int) -> tuple[int, int]:
        """Where the pane of a time starts and ends: the nearest start or end of any window."""
        ends = (time - self.offset) // self.slide * self.slide + self.offset
        starts = (time - self.offset + self.size) // self.slide * self.slide
        starts += self.offset - self.size
        return max(ends, starts), min(ends, starts) + self.slide

    def add(self, times: list[int], keys: list[Any], columns: dict[str, list[Any]]) -> list[int]:
        late = []
        self.calls += 1
        for position, (time, key) in enumerate(zip(times, keys, strict=True)):
            start, end = self.pane(time)
            if end <= self.watermark:
                late.append(position)
            else:
                values = {name: column[position] for name, column in columns.items()}
                self.rows.append((start, self.calls, time, position, key, values))
        return late

    def advance(self, watermark: int) -> list[tuple[int, int, dict[Any, list[dict[str, Any]]]]]:
        """Start, end and rows by key of each window with rows that has ended since."""
        answers = []
        ends = {
            self.offset + number * self.slide
            for _, _, time, _, _, _ in self.rows
            for number in range(
                (time - self.offset) // self.slide,
                (time - self.offset + self.size) // self.slide + 2,
            )
        }
        for end in sorted(end for end in ends if self.watermark < end <= watermark):
            by_key: dict[Any, list[dict[str, Any]]] = {}
            ordered = sorted(self.rows, key=lambda row: row[:4])
            for _, _, time, _, key, values in ordered:
                if end - self.size <= time < end:
                    by_key.setdefault(key, []).append(values)
            if by_key:
                answers.append((end - self.size, end, by_key))
        self.watermark = watermark
        return answers

    def copy(self) -> "Model":
        return replace(self, rows=list(self.rows))


def check(emissions: list[Emission], expected: list, spec: dict[str, Any] = SPEC) -> None:
    assert [(e.start, e.end) for e in emissions] == [(start, end) for start, end, _ in expected]
    for emission, (_, _, by_key) in zip(emissions, expected, strict=True):
        keys = emission.keys.tolist()
        assert len(keys) == len(emission) == len(by_key)
        assert set(keys) == set(by_key)
        for name, (_, column, monoid) in spec.items():
            assert len(emission[name]) == len(keys)
            for key, answer in zip(keys, emission[name].tolist(), strict=True):
                values = [None if column is None else row[column] for row in by_key[key]]
                scalar = monoid.lower(reduce(monoid.combine, map(monoid.lift, values)))
                if scalar is None:
                    assert math.isnan(answer)
                elif name in ("average", "spread"):
                    assert answer == pytest.approx(scalar, rel=1e-12, abs=1e-9)
                else:
                    assert answer == scalar, (name, key)


def window_of(spec: dict[str, Any], size: int, slide: int, offset: int = 0) -> ShardWindow:
    return ShardWindow(
        {name: (monoid, column) for name, (monoid, column, _) in spec.items()},
        size,
        slide,
        offset=offset,
    )


def total(size: int, slide: int, **options: Any) -> ShardWindow:
    return ShardWindow({"total": (c.SUM, "v"), "n": (c.COUNT, None)}, size, slide, **options)


def answers(emissions: Iterable[Emission], name: str = "total") -> list[tuple[int, dict]]:
    return [(e.end, dict(zip(e.keys.tolist(), e[name].tolist(), strict=True))) for e in emissions]


# The differential suite

hashable = st.sampled_from([None, "a", "b", "", 0, 1, 7, -3, (1, "x"), (), 2.5, 10**30, "c", "d"])
whole = st.integers(-5, 2**40)
part = st.integers(-40, 40).map(lambda number: number / 2)
word = st.sampled_from("abcdefgh")


class ShardMachine(RuleBasedStateMachine):
    """Windows and forks of one another, fed alike or not, each next to its own model."""

    @initialize(size=st.integers(1, 12), slide=st.integers(1, 12), offset=st.integers(-9, 9))
    def start(self, size: int, slide: int, offset: int) -> None:
        size, slide = max(size, slide), min(size, slide)
        window = window_of(SPEC, size, slide, offset)
        self.pairs = [(window, Model(size, slide, offset))]
        self.time = 0

    @rule(
        data=st.data(),
        which=st.integers(0, 3),
        rows=st.lists(st.tuples(st.integers(-6, 14), hashable, whole, part, word), max_size=12),
    )
    def add(self, data: st.DataObject, which: int, rows: list) -> None:
        window, model = self.pairs[which % len(self.pairs)]
        times = [self.time + row[0] for row in rows]
        columns = {
            "whole": [row[2] for row in rows],
            "part": [row[3] for row in rows],
            "word": [row[4] for row in rows],
        }
        keys = [row[1] for row in rows]
        given_keys: Any = keys
        if rows and data.draw(st.booleans()):
            keys = [row[2] % 6 * 5 for row in rows]
            given_keys = np.array(keys)
        late = window.add(times, given_keys, **columns)
        assert late.tolist() == model.add(times, keys, columns)

    @rule(which=st.integers(0, 3), step=st.one_of(st.integers(0, 9), st.just(10**12)))
    def advance(self, which: int, step: int) -> None:
        window, model = self.pairs[which % len(self.pairs)]
        watermark = step + (self.time if model.watermark == -math.inf else int(model.watermark))
        self.time = max(self.time, watermark)
        check(window.advance(watermark), model.advance(watermark))
        assert window.keys <= window.stats.registered

    @precondition(lambda self: len(self.pairs) < 4)
    @rule(which=st.integers(0, 3))
    def fork(self, which: int) -> None:
        window, model = self.pairs[which % len(self.pairs)]
        self.pairs.append((window.fork(), model.copy()))

    @precondition(lambda self: len(self.pairs) > 1)
    @rule(which=st.integers(0, 3))
    def drop(self, which: int) -> None:
        window, _ = self.pairs.pop(which % len(self.pairs))
        window.drop()

    def teardown(self) -> None:
        for window, model in getattr(self, "pairs", []):
            end = self.time + 40
            check(window.advance(end), model.advance(end))


TestShardMachine = ShardMachine.TestCase
TestShardMachine.settings = settings(max_examples=60, stateful_step_count=20)


@settings(max_examples=25)
@given(
    st.integers(1, 40).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size))),
    st.integers(0, 2**32 - 1),
)
def test_every_window_answers_what_its_rows_say(shape: tuple[int, int], seed: int) -> None:
    size, slide = shape
    rng = np.random.default_rng(seed)
    spec = {"total": (c.SUM, "v", m.sum), "words": (concat, "v", concat)}
    window, model = window_of(spec, size, slide), Model(size, slide, 0)
    clock = 0
    for _ in range(8):
        count = int(rng.integers(0, 60))
        times = clock + rng.integers(-size, 2 * size, count)
        keys = rng.integers(0, 12, count)
        values = rng.integers(-9, 9, count)
        late = window.add(times, keys, v=values)
        columns = {"v": values.tolist()}
        assert late.tolist() == model.add(times.tolist(), keys.tolist(), columns)
        clock += int(rng.integers(0, size * 2))
        check(window.advance(clock), model.advance(clock), spec)
    clock += 3 * size
    check(window.advance(clock), model.advance(clock), spec)
    assert window.keys == 0


def test_the_answers_are_those_of_one_scalar_window_per_key() -> None:
    rng = np.random.default_rng(3)
    window = total(16, 1)
    scalars = {key: Amta(m.sum) for key in range(5)}
    for time in range(70):
        values = rng.random(5)
        window.add(np.full(5, time), np.arange(5), v=values)
        (emission,) = window.advance(time + 1)
        for key, scalar in scalars.items():
            scalar.insert(float(values[key]))
            scalar.slide(last(16))
            assert emission["total"][key] == scalar.result()


# Time


def test_windows_end_at_the_offset_plus_multiples_of_the_slide() -> None:
    window = total(10, 5, offset=2)
    window.add([0, 3, 8], ["a", "a", "b"], v=[1, 2, 4])
    assert answers(window.advance(17)) == [
        (2, {"a": 1}),
        (7, {"a": 3}),
        (12, {"a": 2, "b": 4}),
        (17, {"b": 4}),
    ]


def test_a_size_that_is_no_multiple_of_the_slide_takes_two_panes_per_slide() -> None:
    window = total(3_600_000_001, 1_000_000)
    window.add([0, 999_999, 1_000_000], ["a"] * 3, v=[1, 2, 4])
    emissions = window.advance(3_601_000_000)
    assert len(emissions) == 3601
    assert answers(emissions)[:2] == [(1_000_000, {"a": 3}), (2_000_000, {"a": 7})]
    assert answers(emissions)[-1] == (3_601_000_000, {"a": 6})
    assert window.stats.panes <= 2 * 3600 + 1


def test_a_watermark_inside_a_pane_leaves_that_pane_open() -> None:
    window = total(20, 10)
    window.add([1], ["a"], v=[1])
    assert window.advance(9) == []
    assert window.add([0, 12], ["a", "a"], v=[2, 4]).tolist() == []
    assert answers(window.advance(19)) == [(10, {"a": 3})]
    assert window.add([9, 10], ["a", "a"], v=[8, 16]).tolist() == [0]
    assert answers(window.advance(20)) == [(20, {"a": 23})]
    assert (window.stats.rows, window.stats.late) == (4, 1)


def test_rows_of_a_pane_combine_by_call_then_time_then_position() -> None:
    window = ShardWindow({"words": (concat, "w")}, 10, 10)
    window.add([5, 3, 5, 1], ["a", "a", "a", "b"], w=["c", "a", "d", "z"])
    window.add([4, 0], ["a", "a"], w=["f", "e"])
    assert answers(window.advance(10), "words") == [(10, {"a": "acdef", "b": "z"})]


def test_time_never_goes_back() -> None:
    window = total(4, 2)
    assert window.watermark is None
    window.advance(10)
    with pytest.raises(TimeOrderError, match="9 is before 10"):
        window.advance(9)
    assert window.advance(10) == []
    assert window.watermark == 10


@pytest.mark.parametrize("silence", [3600, 10**15])
def test_silence_costs_what_is_left_in_the_window_and_no_more(silence: int) -> None:
    window = total(60, 1)
    window.add(np.arange(60), np.zeros(60, int), v=np.ones(60, int))
    window.advance(60)
    before = window.stats.combines
    window.add([silence], [0], v=[5])
    emissions = window.advance(silence + 1)
    assert [e.end for e in emissions] == [*range(61, 120), silence + 1]
    assert emissions[-1]["total"].tolist() == [5]
    assert window.stats.combines - before < 2 * 60
    assert window.stats.panes == 1


def test_many_islands_of_rows_are_reached_without_walking_between_them() -> None:
    window = total(5, 5)
    islands = np.arange(2000) * 10**9
    window.add(islands, np.zeros(2000, int), v=np.arange(2000))
    emissions = window.advance(10**13)
    assert [int(e["total"][0]) for e in emissions] == list(range(2000))
    assert window.stats.panes <= 1
    assert window.stats.combines == 0


def test_an_empty_pane_between_others_is_no_row_of_any_key() -> None:
    window = total(3, 1)
    window.add([0, 2], ["a", "a"], v=[0, 0])
    assert answers(window.advance(6), "n") == [
        (1, {"a": 1}),
        (2, {"a": 1}),
        (3, {"a": 2}),
        (4, {"a": 1}),
        (5, {"a": 1}),
    ]


def test_a_slide_costs_about_four_combines_whatever_the_size() -> None:
    for size in (64, 256):
        window = total(size, 1)
        for time in range(3 * size):
            window.add([time], ["a"], v=[1])
            window.advance(time + 1)
        before = window.stats.combines
        for time in range(3 * size, 5 * size):
            window.add([time], ["a"], v=[1])
            window.advance(time + 1)
        assert window.stats.combines - before <= 4.1 * 2 * size


# Keys


def test_keys_come_go_and_return() -> None:
    window = total(2, 1)
    window.add([0, 1, 5], ["a", "b", "a"], v=[1, 2, 4])
    assert answers(window.advance(9)) == [
        (1, {"a": 1}),
        (2, {"a": 1, "b": 2}),
        (3, {"b": 2}),
        (6, {"a": 4}),
        (7, {"a": 4}),
    ]
    assert window.keys == 0


@pytest.mark.parametrize(
    "keys",
    [
        [None, 1, "1", (1, "x"), 2.5, 10**30],
        np.array([5, 2**62, -(2**63), 0], np.int64),
        np.array([5, 2**64 - 1, 0], np.uint64),
        np.array(["b", "a", "ccc"]),
        np.array([1.5, -0.5]),
        np.array([True, False]),
        np.array(["2020-01-01T00:00:00.000000001", "2021"], "M8[ns]"),
    ],
    ids=["objects", "int64", "uint64", "strings", "floats", "bools", "datetimes"],
)
def test_any_hashable_is_a_key_and_comes_back_as_it_was(keys: Any) -> None:
    window = total(2, 1)
    for time in (0, 1):
        window.add([time] * len(keys), keys, v=[1] * len(keys))
    emission = window.advance(2)[-1]
    assert list(emission.keys) == list(keys)
    assert emission["total"].tolist() == [2] * len(keys)


def test_int_keys_come_back_as_int64_and_mixed_ones_as_objects() -> None:
    window = total(1, 1)
    window.add([0, 0], [7, 3], v=[1, 2])
    window.add([1], ["x"], v=[1])
    window.add([2], [2**70], v=[1])
    ints, mixed, big = window.advance(3)
    assert ints.keys.dtype == np.int64
    assert mixed.keys.dtype == object
    assert big.keys.tolist() == [2**70]


def test_equal_keys_are_one_key_however_they_are_handed_in() -> None:
    window = total(1, 1)
    window.add([0, 0], np.array([1, 2]), v=[1, 1])
    window.add([0, 0], [1, 2], v=[1, 1])
    window.add([0, 0], np.array([1, 2], np.uint8), v=[1, 1])
    window.add([0, 0], np.array([1.0, 2.0]), v=[1, 1])
    window.add([0, 0], np.array([1, 2], object), v=[1, 1])
    assert answers(window.advance(1)) == [(1, {1: 5, 2: 5})]


def test_int_keys_are_found_however_far_apart_they_lie() -> None:
    window = total(1, 1)
    ends = [-(2**63), 2**63 - 1]
    batches = [[5, 6, 7], [6, *ends], [8, 5, 10**6], [*ends, 4, -3], [9, 10**6, -3, 2000]]
    counts: dict[int, int] = {}
    for batch in batches:
        window.add(np.zeros(len(batch), int), np.array(batch), v=np.ones(len(batch), int))
        for key in batch:
            counts[key] = counts.get(key, 0) + 1
    assert answers(window.advance(1)) == [(1, counts)]


def test_keys_that_have_left_are_forgotten_and_those_that_stay_are_not() -> None:
    window = total(4, 1)
    for time in range(500):
        keys = np.append(np.arange(time * 20, time * 20 + 20), -1)
        window.add(np.full(21, time), keys, v=keys)
        (emission,) = window.advance(time + 1)
        first = max(0, time - 3) * 20
        expected = {-1: min(time + 1, 4) * -1, **{k: k for k in range(first, time * 20 + 20)}}
        assert answers([emission]) == [(time + 1, expected)]
        assert window.stats.registered <= 64 + 2 * 81 + 21
    window.advance(1000)
    assert window.stats.registered <= 64
    assert window.keys == 0


def test_a_crowd_of_keys_that_left_is_forgotten_though_no_new_key_comes() -> None:
    window = total(2, 1)
    window.add(np.zeros(5000, int), np.arange(5000), v=np.ones(5000, int))
    for time in range(6):
        window.add([time], [17], v=[1])
        window.advance(time + 1)
    assert window.stats.registered <= 64 + 2
    window.add([6], [4000], v=[3])
    assert answers(window.advance(7)) == [(7, {17: 1, 4000: 3})]


def test_keys_are_forgotten_though_many_open_panes_name_the_same_ones() -> None:
    window = total(1, 1)
    ahead = np.repeat(np.arange(1000, 1050), 40)
    window.add(ahead, np.tile(np.arange(40), 50), v=ahead)
    for time in range(20):
        window.add(np.full(100, time), np.arange(100) + (time + 1) * 1000, v=np.ones(100, int))
        window.advance(time + 1)
        assert window.stats.registered <= 64 + 2 * 140 + 100


def test_the_same_batch_of_keys_is_new_after_they_were_forgotten() -> None:
    window = total(1, 1)
    keys = np.arange(100)
    window.add(np.zeros(100, int), keys, v=keys)
    window.advance(50)
    assert window.stats.registered == 0
    window.add(np.full(50, 60), keys[50:], v=keys[50:])
    window.add(np.full(100, 60), keys, v=keys)
    expected = {key: key if key < 50 else 2 * key for key in range(100)}
    assert answers(window.advance(61)) == [(61, expected)]
    window.advance(100)
    window.add(np.full(100, 100), keys, v=keys)
    assert answers(window.advance(101)) == [(101, {key: key for key in range(100)})]


def test_an_array_of_keys_may_be_filled_anew_for_the_next_batch() -> None:
    window = total(1, 1)
    keys = np.array([1, 2])
    window.add([0, 0], keys, v=[1, 2])
    keys[:] = [3, 4]
    window.add([0, 0], keys, v=[3, 4])
    assert answers(window.advance(1)) == [(1, {1: 1, 2: 2, 3: 3, 4: 4})]


def test_results_with_the_same_keys_share_them() -> None:
    window = total(2, 1)
    emissions = []
    for time in range(9):
        window.add([time, time], ["a", "b"], v=[1, 2])
        emissions += window.advance(time + 1)
    assert emissions[-1].keys is emissions[0].keys


def test_a_result_can_be_read_after_its_keys_were_forgotten() -> None:
    window = total(1, 1)
    window.add(np.zeros(300, int), [f"k{i}" for i in range(300)], v=np.arange(300))
    emissions = window.advance(1)
    for time in range(1, 5):
        window.add([time], ["other"], v=[1])
        window.advance(time + 1)
    assert window.stats.registered <= 66
    assert answers(emissions) == [(1, {f"k{i}": i for i in range(300)})]


# Forks


def test_a_fork_and_its_base_give_the_same_numbers_to_different_keys() -> None:
    base = total(4, 1)
    base.add([0], ["shared"], v=[1])
    base.advance(1)
    fork = base.fork()
    base.add([1, 1], ["b1", "b2"], v=[2, 3])
    fork.add([1, 1], ["f1", "b2"], v=[4, 5])
    assert (base.stats.registered, fork.stats.registered) == (3, 3)
    assert answers(base.advance(2)) == [(2, {"shared": 1, "b1": 2, "b2": 3})]
    assert answers(fork.advance(2)) == [(2, {"shared": 1, "f1": 4, "b2": 5})]
    assert base.advance(2) == []


def test_int_keys_of_a_fork_are_not_mistaken_for_those_of_its_base() -> None:
    base = total(4, 1)
    base.add([0, 0], np.array([1, 2]), v=[1, 2])
    forks = [base.fork(), base.fork()]
    for number, window in enumerate((base, *forks), start=3):
        window.add([0], np.array([number]), v=[number])
        window.add([0, 0, 0], np.array([3, 4, 5]), v=[10, 20, 30])
    for number, window in enumerate((base, *forks), start=3):
        expected = {1: 1, 2: 2, 3: 10, 4: 20, 5: 30}
        expected[number] += number
        assert answers(window.advance(1)) == [(1, expected)]


def test_a_fork_of_a_window_without_rows_takes_columns_of_another_kind() -> None:
    base = ShardWindow({"least": (c.MIN, "v")}, 1, 1)
    fork = base.fork()
    base.add([0], ["a"], v=[1])
    fork.add([0], ["a"], v=["x"])
    assert answers(fork.advance(1), "least") == [(1, {"a": "x"})]


def test_a_fork_remembers_keys_that_its_base_has_forgotten() -> None:
    base = total(3, 1)
    base.add(np.zeros(200, int), np.arange(200), v=np.arange(200))
    base.advance(1)
    fork = base.fork()
    base.add([50], [7], v=[1])
    base.advance(100)
    assert base.stats.registered <= 64
    fork.add([1], [199], v=[1])
    expected = {key: key for key in range(199)} | {199: 200}
    assert answers(fork.advance(2)) == [(2, expected)]


def test_open_rows_and_counters_of_a_fork_are_its_own() -> None:
    base = total(2, 1)
    base.add([0], ["a"], v=[1])
    fork = base.fork()
    fork.add([0, 1], ["a", "b"], v=[10, 20])
    fork.advance(2)
    assert (fork.stats.rows, base.stats.rows) == (3, 1)
    assert base.stats.combines == 0
    assert fork.stats.combines > 0
    assert answers(base.advance(1)) == [(1, {"a": 1})]


def test_a_dropped_window_refuses_everything_and_its_fork_lives_on() -> None:
    base = total(2, 1)
    base.add([0], ["a"], v=[1])
    base.advance(1)
    fork = base.fork()
    base.drop()
    for call in (
        lambda: base.add([1], ["a"], v=[1]),
        lambda: base.advance(2),
        base.fork,
        base.drop,
        lambda: base.keys,
    ):
        with pytest.raises(WindowDroppedError):
            call()
    fork.add([1], ["a"], v=[2])
    assert answers(fork.advance(2)) == [(2, {"a": 3})]


def test_a_fork_shares_the_panes_of_its_base() -> None:
    base = total(1024, 1)
    base.add(np.arange(1024), np.zeros(1024, int), v=np.ones(1024, int))
    base.advance(1024)
    fork = base.fork()
    assert fork.stats.combines == base.stats.combines
    fork.add([1024], [0], v=[1])
    fork.advance(1025)
    assert fork.stats.combines - base.stats.combines <= 2 * 10 + 1


# Bad input changes nothing


def picture(window: ShardWindow) -> tuple[Any, ...]:
    """All that a caller can see, from a fork that is run to its end."""
    fork = window.fork()
    seen = [window.stats, window.keys, window.watermark]
    return (*seen, answers(fork.advance(10**6)))


BAD = {
    "lengths": ([1, 2], ["a"], {"v": [1, 2]}, InvalidArgumentError),
    "column length": ([1, 2], ["a", "b"], {"v": [1]}, InvalidArgumentError),
    "missing column": ([1], ["a"], {}, InvalidArgumentError),
    "unknown column": ([1], ["a"], {"v": [1], "x": [2]}, InvalidArgumentError),
    "two dimensions": (np.ones((1, 1), int), ["a"], {"v": [1]}, InvalidArgumentError),
    "keys in two dimensions": ([1], np.ones((1, 2), int), {"v": [1]}, InvalidArgumentError),
    "no sequence of keys": ([1], 1, {"v": [1]}, InvalidArgumentError),
    "no sequence of times": (1, ["a"], {"v": [1]}, InvalidArgumentError),
    "NaN time": ([1.0, math.nan], ["new", "b"], {"v": [1, 2]}, InvalidValueError),
    "float time": ([1.5], ["new"], {"v": [1]}, InvalidValueError),
    "bool time": ([True], ["new"], {"v": [1]}, InvalidValueError),
    "text time": (["1"], ["new"], {"v": [1]}, InvalidValueError),
    "datetime time": (np.array(["2020"], "M8[us]"), ["new"], {"v": [1]}, InvalidValueError),
    "far time": ([2**62], ["new"], {"v": [1]}, InvalidValueError),
    "NaN key": ([1, 1], ["new", math.nan], {"v": [1, 2]}, InvalidValueError),
    "NA key": ([1, 1], ["new", pandas.NA], {"v": [1, 2]}, InvalidValueError),
    "NaN in a key": ([1], [("new", (math.nan,))], {"v": [1]}, InvalidValueError),
    "unhashable key": ([1, 1], ["new", []], {"v": [1, 2]}, InvalidValueError),
    "text in a sum": ([1, 1], ["new", "a"], {"v": [1, "x"]}, InvalidValueError),
    "NaN in an order": ([1, 1], ["new", "a"], {"v": [1, math.nan]}, InvalidValueError),
    "text after numbers": ([1], ["new"], {"v": ["x"]}, InvalidValueError),
    "second pane": ([1, 9], ["new", "a"], {"v": [1, None]}, InvalidValueError),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_refused_and_change_nothing(case: str) -> None:
    times, keys, columns, error = BAD[case]
    window = ShardWindow({"total": (c.SUM, "v"), "least": (c.MIN, "v")}, 4, 2)
    window.add([0, 1, 3], ["a", "b", "a"], v=[1, 2, 3])
    window.advance(1)
    before = picture(window)
    with pytest.raises(error):
        window.add(times, keys, **columns)
    assert picture(window) == before


def test_a_column_that_changes_its_kind_is_refused_before_panes_must_be_combined() -> None:
    window = ShardWindow({"least": (c.MIN, "v"), "first": (c.FIRST, "w")}, 4, 2)
    window.add([0], ["a"], v=[1], w=[1])
    with pytest.raises(InvalidValueError, match="compare"):
        window.add([2], ["b"], v=["x"], w=["x"])
    window.add([2], ["a"], v=[0.5], w=["x"])
    assert answers(window.advance(4), "least")[-1] == (4, {"a": 0.5})


@pytest.mark.parametrize("monoid", [m.min, m.max, m.range])
@pytest.mark.parametrize(
    "values",
    [[date(2020, 1, 2), Decimal(1)], [Decimal(1), datetime(2020, 1, 2)], [Decimal(1), date.max]],
    ids=str,
)
def test_objects_that_could_not_be_compared_when_panes_are_combined_are_refused(
    monoid: Any, values: list[Any]
) -> None:
    window = ShardWindow({"x": (monoid, "v")}, 4, 2)
    with pytest.raises(InvalidValueError, match="compare"):
        window.add([0, 0], ["a", "b"], v=values)
    window.add([0], ["a"], v=[date(2020, 1, 1)])
    with pytest.raises(InvalidValueError, match="compare"):
        window.add([2, 2], ["a", "b"], v=values)
    window.add([2], ["a"], v=[date(2020, 1, 3)])
    assert [e.end for e in window.advance(9)] == [2, 4, 6]


def test_columns_may_be_called_times_keys_or_self() -> None:
    spec = {name: (c.SUM, name) for name in ("times", "keys", "self")}
    columns = {name: [1, 2] for name in spec}
    window = ShardWindow(spec, 1, 1)
    with pytest.raises(InvalidArgumentError, match="keys has 1 rows, times has 2"):
        window.add([0, 0], ["a"], **columns)
    window.add([0, 0], ["a", "b"], **columns)
    (emission,) = window.advance(1)
    assert [emission[name].tolist() for name in spec] == [[1, 2]] * 3


def test_no_rows_are_no_news() -> None:
    window = total(4, 2)
    assert window.add([], [], v=[]).tolist() == []
    assert window.add(np.array([]), np.array([]), v=np.array([])).tolist() == []
    assert window.stats.rows == 0


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"size": 4, "slide": 5}, "slide"),
        ({"size": 4, "slide": 0}, "slide"),
        ({"size": 0, "slide": 0}, "size"),
        ({"size": 1.5, "slide": 1}, "size"),
        ({"size": 4, "slide": 2, "offset": "a"}, "offset"),
        ({"size": 4, "slide": 2, "aggregates": {}}, "aggregates"),
        ({"size": 4, "slide": 2, "aggregates": {"x": c.SUM}}, "aggregates"),
        ({"size": 4, "slide": 2, "aggregates": {"x": ("sum", "v")}}, "aggregates"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused_by_name(arguments: dict, names: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{names}:"):
        ShardWindow(**{"aggregates": {"total": (c.SUM, "v")}, **arguments})


@pytest.mark.parametrize("watermark", [1.5, None, "3", 2**62])
def test_a_watermark_is_an_integer(watermark: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="watermark"):
        total(4, 2).advance(watermark)


# A combine or a store that fails in the middle


@pytest.mark.parametrize(("size", "slide"), [(4, 1), (3, 2), (5, 4)])
@pytest.mark.parametrize("refused", "abcd")
def test_answers_that_were_ready_when_advance_raised_come_with_the_next_call(
    size: int, slide: int, refused: str
) -> None:
    allowed = [True]

    def combine(older: str, newer: str) -> str:
        if not allowed[0] and refused in older + newer:
            raise RuntimeError("not today")
        return older + newer

    touchy = Monoid("touchy", "", lift=str, combine=combine, lower=str)
    window = ShardWindow({"words": (touchy, "w")}, size, slide)
    window.add([0, 1, 2, 3], ["k"] * 4, w=list("abcd"))
    expected = answers(window.fork().advance(20), "words")
    allowed[0] = False
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not today"):
            window.advance(20)
    assert window.watermark is None
    allowed[0] = True
    assert answers(window.advance(20), "words") == expected


def test_a_pane_stays_closed_when_advance_raises_after_it_and_later_ones_stay_open() -> None:
    def combine(older: str, newer: str) -> str:
        if "x" in newer:
            raise RuntimeError("no x")
        return older + newer

    window = ShardWindow({"words": (Monoid("no_x", "", str, combine, str), "w")}, 2, 1)
    window.add([0, 1], ["k", "k"], w=["a", "x"])
    with pytest.raises(RuntimeError, match="no x"):
        window.advance(9)
    assert window.add([0, 1, 5], ["k", "j", "k"], w=["z", "y", "v"]).tolist() == [0]


class AwayPairs(MemoryPairs[Table]):
    """Pairs in a store that can be cut off, and that keeps bytes."""

    away = False

    def write(self, written: Any, root: Any) -> None:
        if self.away:
            raise StoreUnavailableError("the store is away")
        super().write(pickle.loads(pickle.dumps(written)), root)


def test_a_store_that_is_away_stops_time_and_loses_nothing() -> None:
    pairs: AwayPairs = AwayPairs()
    window = total(8, 1, open_amta=lambda monoid: Amta(monoid, pairs=pairs))
    plain = total(8, 1)
    seen, expected = [], []
    for time in range(60):
        for each in (window, plain):
            each.add([time, time], [time % 3, "x"], v=[time, 1])
        expected += answers(plain.advance(time + 1))
        pairs.away = time % 10 in (4, 5, 6)
        try:
            seen += answers(window.advance(time + 1))
        except StoreUnavailableError:
            assert pairs.away
    pairs.away = False
    seen += answers(window.advance(60))
    assert seen == expected


def test_panes_live_in_a_store_and_answer_as_they_do_in_memory() -> None:
    store = MemoryStore()
    opened = partial(open_window, store=store, window="shard", buffer=4, cache=4)
    spec = {"total": (c.SUM, "v"), "list": (m.collect, "v")}
    stored = ShardWindow(spec, 40, 1, open_amta=opened)
    plain = ShardWindow(spec, 40, 1)
    for time in range(120):
        for window in (stored, plain):
            window.add([time] * 3, [time % 3, "x", time % 7], v=[1, 2, 3])
        seen, expected = stored.advance(time + 1), plain.advance(time + 1)
        for name in spec:
            assert answers(seen, name) == answers(expected, name)
    assert store.count() > 20


def test_a_window_does_not_start_on_panes_whose_keys_it_does_not_know() -> None:
    def used(monoid: Monoid[Table, Table, Table]) -> Amta[Table, Table, Table]:
        amta = Amta(monoid)
        amta.insert(Table(np.array([0]), (c.SUM.lift(np.array([1])),)))
        return amta

    with pytest.raises(InvalidArgumentError, match="open_amta: its window holds 1 panes"):
        ShardWindow({"total": (c.SUM, "v")}, 2, 1, open_amta=used)


# Tables and results


def test_tables_with_the_same_keys_share_the_array_of_their_numbers() -> None:
    tables = Tables([c.SUM])
    older = Table(np.array([1, 5]), (c.SUM.lift(np.array([1, 2])),))
    newer = Table(np.array([1, 5]), (c.SUM.lift(np.array([3, 4])),))
    subset = Table(np.array([5]), (c.SUM.lift(np.array([9])),))
    assert tables.combine(older, newer).ids is older.ids
    assert tables.combine(older, subset).ids is older.ids
    assert tables.combine(subset, older).ids is older.ids
    assert tables.combines == 3


@given(
    st.dictionaries(st.integers(0, 20), st.text("ab", max_size=2), max_size=12),
    st.dictionaries(st.integers(0, 20), st.text("ab", max_size=2), max_size=12),
)
def test_the_union_of_two_tables_combines_the_keys_of_both_in_order(
    older: dict[int, str], newer: dict[int, str]
) -> None:
    columns = c.objects(concat)
    tables = Tables([columns])

    def table(states: dict[int, str]) -> Table:
        ids = sorted(states)
        values = np.array([states[key] for key in ids], object)
        return Table(np.array(ids, np.int64), (columns.lift(values),))

    combined = tables.combine(table(older), table(newer))
    expected = {k: older.get(k, "") + newer.get(k, "") for k in sorted({*older, *newer})}
    assert combined.ids.tolist() == list(expected)
    if expected:
        assert columns.lower(combined.states[0]).tolist() == list(expected.values())


def test_int_and_float_batches_meet_in_one_sum() -> None:
    window = total(4, 1)
    window.add([0, 0], ["a", "b"], v=[2**53 + 1, 1])
    window.add([1], ["b"], v=[0.5])
    window.add([2], ["a"], v=[-(2.0**53)])
    assert answers(window.advance(3))[-1] == (3, {"a": 1.0, "b": 1.5})


def test_an_int_total_beyond_int64_is_refused_where_it_is_read() -> None:
    top = 2**63 - 1
    window = ShardWindow({"total": (c.SUM, "v"), "exact": (c.objects(m.sum), "v")}, 3, 1)
    window.add([0, 1, 2], ["a", "a", "a"], v=[top, 5, -10])
    one, two, three = window.advance(3)
    assert one["total"].tolist() == [top]
    with pytest.raises(InvalidValueError, match="int64"):
        _ = two["total"]
    assert two["exact"].tolist() == [top + 5]
    assert three["total"].tolist() == three["exact"].tolist() == [top - 5]


def test_arrays_of_the_caller_and_of_the_window_are_not_the_same() -> None:
    window = ShardWindow({"total": (c.SUM, "v"), "last": (c.LAST, "v")}, 2, 1)
    times, keys, values = np.zeros(3, int), np.arange(3), np.array([1.0, 2.0, 3.0])
    window.add(times, keys, v=values)
    for array in (times, keys, values):
        array[:] = 77
    first = window.advance(1)[0]
    assert answers([first]) == [(1, {0: 1.0, 1: 2.0, 2: 3.0})]
    first["last"][:] = 99
    first["total"][:] = 99
    with pytest.raises(ValueError, match="read-only"):
        first.keys[:] = 99
    assert answers(window.advance(2), "last") == [(2, {0: 1.0, 1: 2.0, 2: 3.0})]


def test_a_result_that_nobody_reads_is_not_lowered() -> None:
    lowered = []

    def lower(state: str) -> str:
        lowered.append(state)
        return state

    window = ShardWindow({"words": (replace(concat, lower=lower), "w")}, 1, 1)
    window.add([0], ["a"], w=["x"])
    (emission,) = window.advance(1)
    assert lowered == []
    assert emission.results["words"].tolist() == ["x"]
    assert emission["words"].tolist() == ["x"]
    assert lowered == ["x"]
    assert repr(emission) == "Emission(start=0, end=1, keys=1)"


def test_a_batch_of_many_panes_and_keys_in_any_order_is_taken_at_once() -> None:
    rng = np.random.default_rng(5)
    count = 200_000
    times, keys = rng.integers(0, 50, count), rng.integers(0, 3000, count) * 7
    values = rng.integers(-5, 6, count)
    window = total(50, 10)
    assert len(window.add(times, keys, v=values)) == 0
    emission = window.advance(50)[-1]
    expected = np.zeros(21000, int)
    np.add.at(expected, keys, values)
    assert emission["total"].tolist() == expected[emission.keys].tolist()
    assert emission["n"].sum() == count


def test_panes_far_apart_and_many_keys_do_not_overflow_the_order_of_rows() -> None:
    window = total(1, 1)
    far = 2**60
    keys = list("abcdefgh")
    window.add([far, -far] * 8, np.repeat(keys, 2), v=[1, 2] * 8)
    assert answers(window.advance(2**61)) == [
        (1 - far, dict.fromkeys(keys, 2)),
        (1 + far, dict.fromkeys(keys, 1)),
    ]


def test_a_masked_array_is_refused_because_its_mask_would_be_lost() -> None:
    window = total(1, 1)
    with pytest.raises(InvalidValueError, match="masked array"):
        window.add([0, 0], ["a", "b"], v=np.ma.masked_array([1, 2], mask=[False, True]))
    assert window.stats.rows == 0
