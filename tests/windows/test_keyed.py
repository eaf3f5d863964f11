"""Windows by key that lie on shelves between batches, against recalculation of each key."""

from collections import defaultdict
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgumentError, TimeOrderError
from holdfast.windows import keyed as keyed_module
from holdfast.windows import monoids as m
from holdfast.windows import policies
from holdfast.windows.approximation import ApproximateWindow, hops, max_error, max_leaves
from holdfast.windows.keyed import KeyedWindows, roll_timed
from holdfast.windows.recalculation import Recalculation
from holdfast.windows.shard.saved import SignatureError
from holdfast.windows.shard.shelves import MemoryShelf
from holdfast.windows.stores.codec import StateCodec

SUMMARY = m.product(
    time=m.time.over("t"), n=m.count, total=m.sum.over("v"), top=m.max.over("v"),
    words=m.collect.over("v"),
)  # fmt: skip
POLICIES = {
    "last": policies.last(3),
    "many": policies.last(1000),
    "bound": policies.value_bound(20, lambda w: w.total),
    "emptying": policies.value_bound(5, lambda w: w.total, keep_newest=False),
    "peak": policies.before_max(lambda w: w.top),
    "span": policies.time_span(10),
    "own": policies.two_argument(lambda total, old: total.value.n - old.value.n >= 4),
}
KEYS = ["a", None, ("a", 1), 7]


class CountingShelf(MemoryShelf):
    """Everything goes through bytes, as in a real store; traffic is counted."""

    codec = StateCodec()

    def __init__(self) -> None:
        super().__init__()
        self.reads = self.writes = 0

    def read(self, name, number):
        record = super().read(name, number)
        self.reads += record is not None
        return None if record is None else self.codec.decode(record)

    def write(self, name, number, record):
        self.writes += 1
        super().write(name, number, self.codec.encode(record))


class Shelves:
    """Windows that are opened anew for every batch."""

    def __init__(self, policy, idle=None, monoid=SUMMARY) -> None:
        self.parts, self.pairs = CountingShelf(), CountingShelf()
        self.policy, self.idle, self.monoid = policy, idle, monoid

    def open(self, signature="one") -> KeyedWindows:
        return KeyedWindows(
            self.monoid, self.policy, signature, self.parts, self.pairs, idle=self.idle
        )


class Model:
    """Each key recalculated, with all of its updates in memory."""

    def __init__(self, policy, idle) -> None:
        self.policy, self.idle = policy, idle
        self.windows = defaultdict(lambda: Recalculation(SUMMARY))
        self.last = {}

    def roll(self, key, updates):
        answers = []
        for update in updates:
            if self.idle is not None and update["t"] - self.last.get(key, update["t"]) > self.idle:
                self.windows[key] = Recalculation(SUMMARY)
            window = self.windows[key]
            window.insert(update)
            window.slide(self.policy)
            answers.append(dict(window.result()))
            self.last[key] = update["t"]
        return answers


def answers_of(windows, key, updates):
    states = windows.roll(key, [update["t"] for update in updates], updates).states
    return [dict(windows.monoid.answer(state)) for state in states]


steps = st.tuples(st.integers(0, 12), st.integers(0, 9))
"""How much time passes in a batch before an update, and its value."""
batches = st.lists(
    st.dictionaries(st.sampled_from(KEYS), st.lists(steps, min_size=1, max_size=8)), max_size=12
)


@settings(max_examples=80, deadline=None)
@given(batches, st.sampled_from(sorted(POLICIES)), st.sampled_from([None, 1, 15]))
@example([{"a": [(0, 1)] * 40}, {}, {"a": [(60, 1)] * 40}, {"a": [(60, 1)]}], "many", 30)
def test_every_key_is_as_if_it_were_alone_and_never_saved(batches, name, idle):
    policy = POLICIES[name]
    shelves, model = Shelves(policy, idle), Model(policy, idle)
    now = 0
    for batch in batches:
        windows = shelves.open()
        latest = now
        for key, rows in batch.items():
            time, updates = now + 1, []
            for gap, value in rows:
                time += gap
                updates.append({"t": time, "v": value})
            assert answers_of(windows, key, updates) == model.roll(key, updates)
            latest = max(latest, time)
        now = latest
        windows.advance(now)
        held = sum(len(model.windows[key]) for key in model.windows)
        assert windows.held <= held if idle else windows.held == held
        windows.save()


@settings(max_examples=30, deadline=None)
@given(batches)
def test_keys_of_one_hash_do_not_disturb_each_other(batches):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed_module, "_place", lambda key: 0)
        test_every_key_is_as_if_it_were_alone_and_never_saved.hypothesis.inner_test(
            batches, "last", 15
        )


def one(time, value=1):
    return {"t": time, "v": value}


def rolled(windows, key, times):
    return [answer["n"] for answer in answers_of(windows, key, [one(time) for time in times])]


def test_a_gap_longer_than_idle_starts_anew_wherever_batches_fall():
    times = [0, 10, 21, 30, 41, 41]
    for cuts in range(2**5):
        shelves, answers, batch = Shelves(POLICIES["many"], idle=10), [], []
        for at, time in enumerate(times):
            batch.append(time)
            if cuts >> at & 1 or at == len(times) - 1:
                windows = shelves.open()
                answers += rolled(windows, "a", batch)
                windows.advance(time)
                windows.save()
                batch = []
        assert answers == [1, 2, 1, 2, 1, 2]


def test_idle_keys_leave_nothing_behind():
    shelves = Shelves(POLICIES["many"], idle=100)
    for start in range(0, 300, 50):
        windows = shelves.open()
        for key in range(5):
            rolled(windows, (start, key), range(start, start + 20))
        rolled(windows, "busy", [start])
        windows.advance(start)
        windows.save()
    windows = shelves.open()
    assert windows.keys == 21
    assert windows.next_end() == 300
    windows.advance(10_000)
    windows.save()
    windows = shelves.open()
    assert (windows.keys, windows.held, windows.next_end()) == (0, 0, None)
    assert list(shelves.parts.records) == [("meta", 0)]
    assert not shelves.pairs.records


def test_a_key_that_comes_back_is_not_forgotten():
    shelves = Shelves(POLICIES["many"], idle=100)
    for time in range(0, 1000, 60):
        windows = shelves.open()
        counts = rolled(windows, "a", [time])
        windows.advance(time)
        windows.save()
        assert counts == [time // 60 + 1]
    assert shelves.open().keys == 1


def test_a_batch_touches_few_records_of_few_keys():
    shelves = Shelves(policies.last(1000), monoid=m.product(n=m.count))
    windows = shelves.open()
    for key in range(10):
        rolled(windows, key, range(1000))
    windows.save()
    shelves.parts.reads = shelves.parts.writes = shelves.pairs.reads = shelves.pairs.writes = 0
    windows = shelves.open()
    assert rolled(windows, 7, [6000]) == [1000]
    windows.save()
    assert (shelves.parts.reads, shelves.parts.writes) == (2, 2)
    assert shelves.pairs.reads + shelves.pairs.writes <= 40
    assert windows.combines <= 40


def test_pairs_that_no_window_needs_are_deleted():
    shelves = Shelves(policies.last(10))
    for time in range(500):
        windows = shelves.open()
        rolled(windows, "a", [time])
        windows.save()
        assert len(shelves.pairs.records) <= 20


def test_another_signature_is_refused():
    shelves = Shelves(POLICIES["last"])
    windows = shelves.open()
    rolled(windows, "a", [1])
    windows.save()
    with pytest.raises(SignatureError, match=r"of one; this window is two"):
        shelves.open("two")


def test_time_does_not_go_back():
    windows = Shelves(POLICIES["last"]).open()
    rolled(windows, "a", [5])
    with pytest.raises(TimeOrderError, match="4 is before 5"):
        rolled(windows, "a", [4])
    windows.advance(7)
    with pytest.raises(TimeOrderError, match="6 is before the watermark"):
        windows.advance(6)


def test_idle_of_no_time_is_refused():
    with pytest.raises(InvalidArgumentError, match="idle: is 0; give at least 1"):
        Shelves(POLICIES["last"], idle=0).open()


def test_what_raises_is_not_saved():
    shelves = Shelves(policies.value_bound(3, lambda w: w.total))
    windows = shelves.open()
    rolled(windows, "a", [1, 2])
    windows.save()
    before = dict(shelves.parts.records), dict(shelves.pairs.records)
    broken = shelves.open()
    broken.policy = policies.two_argument(lambda total, old: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        rolled(broken, "a", [3])
    assert (shelves.parts.records, shelves.pairs.records) == before
    assert rolled(shelves.open(), "a", [3]) == [3]


@pytest.mark.parametrize(
    "methods",
    [
        (max_error("5%"),),
        (max_error(absolute={"n": 4, "total": 30}), max_leaves(7)),
        (hops(), max_leaves(5)),
    ],
)
def test_approximate_windows_go_on_from_the_shelves_as_if_never_saved(methods):
    random = Random(1)
    monoid = m.product(n=m.count, total=m.sum.over("v"))
    policy = policies.last(60)
    updates = [{"t": step, "v": 5 + random.random()} for step in range(900)]
    alone = ApproximateWindow(monoid, methods)
    expected = [dict(answer) for answer in alone.roll(updates, policy)]
    parts, pairs = CountingShelf(), CountingShelf()
    answers, certain, first = [], [], 0
    while first < len(updates):
        windows = KeyedWindows(monoid, policy, "one", parts, pairs, approximate=methods)
        batch = updates[first : first + random.randint(1, 90)]
        rolled = windows.roll("a", [update["t"] for update in batch], batch)
        answers += [dict(monoid.answer(state)) for state in rolled.states]
        certain += rolled.certain
        assert windows.held <= alone.buckets + 60
        windows.save()
        first += len(batch)
    assert answers == expected
    assert len(certain) == len(updates)
    assert windows.held == alone.buckets
    assert len(pairs.records) <= alone.buckets + 10
    assert windows.held < 40


def test_a_lower_limit_joins_what_is_on_the_shelves():
    parts, pairs = CountingShelf(), CountingShelf()
    for batch, limit in enumerate([50, 6, 20]):
        windows = KeyedWindows(
            m.sum, policies.last(500), "one", parts, pairs, approximate=(max_leaves(limit),)
        )
        rolled = windows.roll("a", range(batch * 400, batch * 400 + 400), [1] * 400)
        windows.save()
        assert windows.held <= limit
        assert abs(rolled.states[-1][0] - min(500, batch * 400 + 400)) <= 500 // 5
        assert set(rolled.certain) == {None}


def test_nothing_of_a_key_that_idled_away_stays():
    parts, pairs = CountingShelf(), CountingShelf()
    now = 0
    for count in (7, 5, 9, 30):
        windows = KeyedWindows(
            m.sum, policies.last(8), "s", parts, pairs, idle=10, approximate=(max_leaves(8),)
        )
        windows.roll("x", range(now, now + count), [1] * count)
        windows.save()
        now += count
    windows.advance(now + 100)
    windows.save()
    assert not pairs.records


def test_a_gap_and_a_watermark_in_it_start_an_approximate_window_anew_alike():
    updates = [(i, 10.0) for i in range(300)] + [(100_000 + i, 10.0 + i % 3) for i in range(300)]
    times, values = [time for time, _ in updates], [value for _, value in updates]
    methods, policy = (max_error("5%"),), policies.last(100)
    whole = roll_timed(ApproximateWindow(m.sum, methods), policy, 1_000, None, times, values)
    parts, pairs = MemoryShelf(), MemoryShelf()
    states, certain = [], []
    for first, last in ((0, 300), (300, 600)):
        windows = KeyedWindows(m.sum, policy, "s", parts, pairs, idle=1_000, approximate=methods)
        rolled = windows.roll("x", times[first:last], values[first:last])
        states += rolled.states
        certain += rolled.certain
        windows.advance(50_299 if last == 300 else times[-1])
        windows.save()
    assert states == whole.states
    assert certain == whole.certain
