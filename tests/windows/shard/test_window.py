"""The shard window against rows grouped by key and reduced one by one, and its edges."""

import math
import pickle
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
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
from holdfast.windows.shard import ShardWindow
from holdfast.windows.shard.tables import Table
from holdfast.windows.stores.store import MemoryStore
from holdfast.windows.stores.stored import open_window
from tests.windows.shard.model import SPEC, Model, answers, check, concat, total, window_of

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
@example((3, 2), 1)
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
    # The last window with rows is let go of when the next one ends.
    clock += 3 * size + slide
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


# Forks


def test_a_fork_of_a_window_without_rows_takes_columns_of_another_kind() -> None:
    base = ShardWindow({"least": (c.MIN, "v")}, 1, 1)
    fork = base.fork()
    base.add([0], ["a"], v=[1])
    fork.add([0], ["a"], v=["x"])
    assert answers(fork.advance(1), "least") == [(1, {"a": "x"})]


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


# Refusals


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


# Results


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
