"""Approximate shard windows against exact ones: bounds for every key, memory, saving."""

import numpy as np
import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.windows import ShardWindow
from holdfast.windows import monoids as m
from holdfast.windows.approximation import block_maxima, hops, max_error, max_leaves
from holdfast.windows.approximation.prediction import Sample, nearest_zero
from holdfast.windows.shard import Span
from holdfast.windows.shard.samples import KeySamples
from holdfast.windows.shard.saved import SavedShard
from holdfast.windows.shard.shelves import MemoryShelf

AGGREGATES = {"total": (m.sum, "v"), "n": (m.count, None), "mean": (m.mean, "v")}
KEYS = 6


def steady(rng, step):
    return 100 + rng.random(KEYS)


def signed(rng, step):
    return rng.standard_normal(KEYS) * 20


def step_down(rng, step):
    return np.full(KEYS, 1_000.0 if step < 700 else 1.0)


def step_up(rng, step):
    return np.full(KEYS, 1.0 if step < 700 else 1_000.0)


def trend(rng, step):
    return np.full(KEYS, 1_500.0 - step) + rng.random(KEYS)


def spiky(rng, step):
    return np.where(rng.random(KEYS) < 0.02, 1e7, rng.random(KEYS))


STREAMS = [steady, signed, step_down, step_up, trend, spiky]


def pairs_of(stream, approximate, *, steps=1_400, size=200, slide=2, seed=3, aggregates=AGGREGATES):
    """Emissions of an exact and of an approximate window, and the window; some keys pause."""
    rng = np.random.default_rng(seed)
    exact = ShardWindow(aggregates, size, slide)
    window = ShardWindow(aggregates, size, slide, approximate=approximate)
    for step in range(steps):
        present = np.flatnonzero((rng.random(KEYS) < 0.9) & ((step < 400) | (np.arange(KEYS) > 0)))
        values = stream(rng, step)[present]
        if present.size and not 900 < step < 950:
            for each in (exact, window):
                each.add(np.full(len(present), step), present, v=values)
        yield from (
            (a, b, window) for a, b in zip(exact.advance(step), window.advance(step), strict=False)
        )


def aligned(exact, approximate):
    """For the keys that the exact window has, where they are in the approximate one."""
    where = {key: row for row, key in enumerate(approximate.keys.tolist())}
    return [where[key] for key in exact.keys.tolist()]


@pytest.mark.parametrize("stream", STREAMS)
def test_an_absolute_bound_is_never_exceeded_for_any_key(stream):
    limits = {"total": 3_000.0, "n": 9.0, "mean.sum": 1e9, "mean.count": 1e9}
    folded = False
    for exact, approximate, window in pairs_of(stream, max_error(absolute=limits)):
        assert (exact.start, exact.end) == (approximate.start, approximate.end)
        at = aligned(exact, approximate)
        assert np.all(np.abs(approximate["total"][at] - exact["total"]) <= 3_000 + 1e-3)
        assert np.all(np.abs(approximate["n"][at] - exact["n"]) <= 9)
        assert approximate.certain.all()
        folded |= window.stats.panes < 40
    assert folded


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("relative", [0.02, 0.1])
def test_a_relative_bound_holds_for_every_key_of_which_it_is_said(stream, relative):
    certain = total = 0
    for exact, approximate, _ in pairs_of(stream, max_error(relative)):
        at = aligned(exact, approximate)
        sure = approximate.certain[at]
        for name in ("total", "n", "mean"):
            error = np.abs(approximate[name][at] - exact[name])
            allowed = relative * np.abs(exact[name]) * (1 + 1e-9) + 1e-9
            assert np.all(error[sure] <= allowed[sure])
        certain += int(sure.sum())
        total += len(sure)
    if stream in (steady, step_up):
        assert certain > 0.95 * total


def test_a_steady_stream_folds_as_much_as_it_may():
    for _, _, window in pairs_of(steady, max_error("10%", of="count")):
        assert window.stats.panes <= 101
    assert window.stats.panes <= 14


def test_aggregates_that_do_not_add_up_have_the_time_bounded():
    aggregates = {"top": (m.max, "v"), "total": (m.sum, "v")}
    longest = 0
    for exact, approximate, window in pairs_of(steady, max_error("5%"), aggregates=aggregates):
        starts = window._buckets.starts
        longest = max([longest, *np.diff(starts).tolist()])
        at = aligned(exact, approximate)
        assert np.all(approximate["top"][at] >= exact["top"])
    assert longest == 6, "5 % of 100 panes, and the one that should be in it"


def test_panes_of_different_lengths_have_their_time_bounded():
    window = ShardWindow({"top": (m.max, "v")}, 1_001, 100, approximate=max_error("12%"))
    exact = ShardWindow({"top": (m.max, "v")}, 1_001, 100)
    late = []
    for each in (window, exact):
        each.add(range(5_000), ["a"] * 5_000, v=[-float(time) for time in range(5_000)])
    for rough, right in zip(window.advance(5_000), exact.advance(5_000), strict=True):
        if rough.certain.all():
            late.append(rough["top"][0] - right["top"][0])
    assert 0 < max(late) <= 0.12 * 1_001


def test_idle_keys_of_windows_that_do_not_overlap():
    window = ShardWindow(
        {"n": (m.count, None)}, size=10, slide=10, linger=100, approximate=max_leaves(3)
    )
    window.add([0], ["a"])
    ends = [emission.end for now in (10, 11, 30) for emission in window.advance(now)]
    assert ends == [10, 20, 30]


def test_how_rows_are_batched_changes_nothing_though_keys_come_and_go():
    def feed(window, step):
        keys = ["a"] + ([f"k{step}", f"j{step}"] if step < 300 else [])
        keys += ["b"] if 100 <= step <= 160 or step >= 330 else []
        values = [100.0 + step % 7 if key in "ab" else 1.0 for key in keys]
        window.add([step] * len(keys), keys, v=values)

    def rows(emissions):
        return [
            (each.end, *row)
            for each in emissions
            for row in zip(
                each.keys.tolist(), each["t"].tolist(), each.certain.tolist(), strict=True
            )
        ]

    aggregates = {"t": (m.sum, "v")}
    steps = ShardWindow(aggregates, 40, 1, approximate=max_error("10%"))
    whole = ShardWindow(aggregates, 40, 1, approximate=max_error("10%"))
    emissions = []
    for step in range(500):
        feed(steps, step)
        feed(whole, step)
        emissions += steps.advance(step + 1)
    assert sorted(rows(emissions)) == sorted(rows(whole.advance(500)))


def test_a_lower_limit_holds_in_a_window_that_is_still_filling():
    parts, pairs = MemoryShelf(), MemoryShelf()

    def reopen(limit):
        return SavedShard(
            lambda open_amta: ShardWindow(
                {"t": (m.sum, "v")},
                100,
                1,
                approximate=max_leaves(limit),
                open_amta=open_amta,
            ),
            "s",
            parts,
            pairs,
        )

    saved = reopen(1_000)
    for step in range(10):
        saved.window.add([step], ["a"], v=[1.0])
    saved.window.advance(10)
    saved.save()
    saved = reopen(10)
    for step in range(10, 400):
        saved.window.add([step], ["a"], v=[1.0])
        saved.window.advance(step + 1)
        assert saved.window.stats.panes <= 10


@pytest.mark.parametrize("limit", [3, 4, 10, 33])
def test_leaves_never_exceed_the_limit(limit):
    for exact, approximate, window in pairs_of(steady, max_leaves(limit)):
        assert window.stats.panes <= limit
        assert approximate.certain is None
        assert np.all(approximate["n"][aligned(exact, approximate)] >= exact["n"])


def test_both_methods_together_keep_the_limit_and_say_where_the_bound_may_fail():
    failed = 0
    for exact, approximate, window in pairs_of(steady, [max_error("1%"), max_leaves(5)]):
        assert window.stats.panes <= 5
        at = aligned(exact, approximate)
        error = np.abs(approximate["total"][at] - exact["total"]) / exact["total"]
        assert np.all(error[approximate.certain[at]] <= 0.01)
        failed += approximate.uncertain
    assert failed > 0


def test_a_saved_window_goes_on_as_one_that_stays():
    rng = np.random.default_rng(9)
    methods = [max_error("8%"), max_leaves(40)]
    stays = ShardWindow(AGGREGATES, 120, 1, approximate=methods)
    parts, pairs = MemoryShelf(), MemoryShelf()

    def make(open_amta):
        return ShardWindow(AGGREGATES, 120, 1, approximate=methods, open_amta=open_amta)

    for batch in range(60):
        saved = SavedShard(make, "one", parts, pairs)
        first = batch * 20
        times = rng.integers(first, first + 20, 100)
        keys, values = rng.integers(0, KEYS, 100), rng.random(100) + 50
        emissions = []
        for window in (stays, saved.window):
            window.add(times, keys, v=values)
            emissions.append(window.advance(first + 10))
        for a, b in zip(*emissions, strict=True):
            assert a.keys.tolist() == b.keys.tolist()
            assert a["total"].tolist() == b["total"].tolist()
            assert a.certain.tolist() == b.certain.tolist()
        preview = [each.end for each in saved.window.preview()]
        assert preview == [each.end for each in stays.preview()]
        saved.save()
    assert stays.stats.panes <= 40
    assert len(pairs.records) <= 40


def test_a_saved_window_takes_a_lower_limit():
    parts, pairs = MemoryShelf(), MemoryShelf()
    for batch, limit in enumerate([60, 60, 8, 8, 30]):
        saved = SavedShard(
            lambda open_amta, limit=limit: ShardWindow(
                {"n": (m.count, None)}, 500, 1, approximate=max_leaves(limit), open_amta=open_amta
            ),
            "one",
            parts,
            pairs,
        )
        window = saved.window
        assert window.stats.panes <= limit
        times = np.arange(batch * 400, batch * 400 + 400)
        window.add(times, np.zeros(400, np.int64))
        for emission in window.advance(batch * 400 + 400):
            assert window.stats.panes <= limit
            exact = min(emission.end, 500)
            assert exact <= emission["n"][0] <= exact + 500 // 7 + 200
        saved.save()


def test_samples_are_those_of_each_key_alone():
    rng = np.random.default_rng(4)
    together, alone = KeySamples(2), {}
    for _ in range(300):
        ids = np.flatnonzero(rng.random(5) < 0.7)
        if not len(ids):
            continue
        values = rng.standard_normal((2, len(ids))) * 3 + np.array([[10.0], [0.0]])
        together.observe(ids, values, 40)
        for column, key in enumerate(ids.tolist()):
            for row in range(2):
                alone.setdefault((row, key), Sample()).observe(float(values[row, column]), 40)
    near = together.copy().nearest_zero(np.arange(7), 0.9)
    for (row, key), sample in alone.items():
        interval = sample.interval(0.9)
        assert near[row, key] == pytest.approx(nearest_zero(interval), rel=1e-9)
    assert near[:, 5:].tolist() == [[0, 0], [0, 0]]
    together.forget_all_but(np.array([1, 3]))
    assert together.ids.tolist() == [1, 3]
    assert together.nearest_zero(np.array([3]), 0.9)[0] == pytest.approx(near[0, 3])


@pytest.mark.parametrize(
    ("methods", "aggregates", "message"),
    [
        (hops(), AGGREGATES, "hops goes with windows of single updates"),
        (block_maxima(5), AGGREGATES, "block_maxima goes with windows of single updates"),
        (max_error(absolute=5), AGGREGATES, "absolute is one amount, but total, n, mean.sum"),
        (max_error(absolute={"x": 5}), AGGREGATES, "absolute names x"),
        (max_error(absolute=5), {"top": (m.max, "v")}, "absolute goes with sums"),
        (max_error(absolute=5), {"top": (m.max, "v"), "n": (m.count, None)}, "does not add up"),
        (max_error(0.1, of={"x": len}), AGGREGATES, "of goes with windows of single updates"),
    ],
)
def test_what_makes_no_sense_is_refused(methods, aggregates, message):
    with pytest.raises(InvalidArgumentError, match=message):
        ShardWindow(aggregates, 60, 1, approximate=methods)


def test_several_windows_at_once_are_refused():
    with pytest.raises(InvalidArgumentError, match="goes with one window"):
        ShardWindow(AGGREGATES, 60, 1, more=[Span(30, 1)], approximate=max_leaves(5))
