"""Several windows over the same panes, idle keys, previews and partials, against single windows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgumentError
from holdfast.windows import columns as c
from holdfast.windows.columns import reduce_segments
from holdfast.windows.shard import Panes, Partials, ShardWindow, Span
from tests.windows.shard.model import concat
from tests.windows.shard.test_saved import batches, spans

SPEC = {"n": (c.COUNT, None), "words": (concat, "w")}


def make(*some: Span, **options) -> ShardWindow:
    first, *more = some
    return ShardWindow(SPEC, first.size, first.slide, offset=first.offset, more=more, **options)


def told(emissions, span=0):
    return [
        (e.start, e.end, dict(zip(e.keys.tolist(), e["words"].tolist(), strict=True)))
        for e in emissions
        if e.span == span and len(e)
    ]


@settings(max_examples=200)
@given(some=st.lists(spans, min_size=2, max_size=4), batches=batches)
def test_windows_that_share_panes_answer_as_windows_of_their_own(some, batches):
    together, alone = make(*some), [make(span) for span in some]
    time, number = 0, 0
    for rows, step in batches:
        # Sorted, and on time: panes differ, so what is late or comes first may differ too.
        times = sorted(max(time + at, time) for at, _ in rows)
        keys = [key for _, key in rows]
        words = [chr(ord("a") + number + i) for i in range(len(rows))]
        number += len(rows)
        for window in (together, *alone):
            assert window.add(times, keys, w=words).tolist() == []
        before = together.preview()
        for which, window in enumerate(alone):
            assert {(start, end) for start, end, _ in told(window.preview())} <= {
                (start, end) for start, end, _ in told(before, which)
            }
        time = max([time + step, *(time + 1 for time in times)])
        emissions = together.advance(time)
        assert [e.end for e in emissions] == sorted(e.end for e in emissions)
        for which, window in enumerate(alone):
            assert told(emissions, which) == told(window.advance(time))


@given(
    span=spans,
    linger=st.integers(0, 30),
    rows=st.lists(st.tuples(st.integers(0, 60), st.sampled_from("abc")), min_size=1, max_size=8),
    cuts=st.lists(st.integers(0, 200), max_size=4).map(sorted),
)
def test_idle_keys_are_named_until_they_have_been_away_for_long(span, linger, rows, cuts):
    window, panes = make(span, linger=linger), Panes([span])
    rows.sort()
    window.add([time for time, _ in rows], [key for _, key in rows], w=["x"] * len(rows))
    emissions = [e for time in [*cuts, 500] for e in window.advance(time)]
    seen: dict[str, list[int]] = {}
    for time, key in rows:
        seen.setdefault(key, []).append(time)
    expected = {}
    for end in range(span.next_end(rows[0][0]), 500, span.slide):
        inside = {key for time, key in rows if end - span.size <= time < end}
        idle = set()
        for key in seen.keys() - inside:
            ended = [panes.start(panes.of(time) + 1) for time in seen[key]]
            newest = max((at for at in ended if at <= end), default=None)
            if newest is not None and newest >= end - linger:
                idle.add(key)
        if inside or idle:
            expected[end] = inside, idle
    assert {
        e.end: (set(e.keys.tolist()), set(e.names.read(e.idle).tolist())) for e in emissions
    } == expected
    assert window.keys == 0


def partials_of(window: ShardWindow, rows) -> Partials:
    """What `merge` takes, by the plainest way."""
    keys = list(dict.fromkeys(key for _, key, _ in rows))
    order = sorted(
        range(len(rows)), key=lambda i: (window.panes.of(rows[i][0]), keys.index(rows[i][1]))
    )
    codes = [(window.panes.of(rows[i][0]), keys.index(rows[i][1])) for i in order]
    starts = np.array(
        [i for i, code in enumerate(codes) if i == 0 or code != codes[i - 1]], np.int64
    )
    words = np.array([rows[i][2] for i in order], object)
    states = []
    for monoid in (c.COUNT, c.objects(concat)):
        states.append(reduce_segments(monoid, monoid.lift(words), starts))
    return Partials(
        keys,
        np.array([codes[i][0] for i in starts], np.int64),
        np.array([codes[i][1] for i in starts], np.int64),
        np.diff(starts, append=len(rows)),
        tuple(states),
    )


@given(
    some=st.lists(spans, min_size=1, max_size=2),
    batches=st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.integers(-9, 20), st.sampled_from(["a", "b", None]), st.just("x"))
            ),
            st.integers(0, 9),
        ),
        max_size=12,
    ),
)
def test_merging_partials_is_adding_their_rows(some, batches):
    added, merged = make(*some), make(*some)
    time = 0
    for rows, step in batches:
        rows = [(time + at, key, word) for at, key, word in rows]
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
        late = added.add(columns[0], columns[1], w=columns[2])
        if rows:
            partials = partials_of(merged, rows)
            refused = merged.merge(partials)
            assert partials.counts[refused].sum() == len(late)
        time += step
        for which in range(len(some)):
            assert told(added.preview(), which) == told(merged.preview(), which)
        assert [told(added.advance(time), which) for which in [0]] == [
            told(merged.advance(time), which) for which in [0]
        ]
    assert added.stats.rows == merged.stats.rows
    assert added.stats.late == merged.stats.late


def test_partials_of_other_aggregates_are_refused():
    window = make(Span(2, 1))
    nothing = np.empty(0, np.int64)
    with pytest.raises(InvalidArgumentError, match="states of 1 aggregates; this window has 2"):
        window.merge(Partials([], nothing, nothing, nothing, ((nothing,),)))


def test_slides_without_a_common_measure_are_refused():
    with pytest.raises(InvalidArgumentError, match="meet only every"):
        Panes([Span(10**6 + 3, 10**6 + 3), Span(10**6, 10**6), Span(10, 1)])
    with pytest.raises(InvalidArgumentError, match="windows: is empty"):
        Panes([])


@given(some=st.lists(spans, min_size=1, max_size=3), times=st.lists(st.integers(-100, 100)))
def test_panes_number_every_time_and_are_cut_where_windows_start_and_end(some, times):
    panes = Panes(some)
    numbers = panes.of_each(np.array(times, np.int64)).tolist()
    assert numbers == [panes.of(time) for time in times]
    cuts = {
        time for span in some for time in range(-200, 200) if (time - span.offset) % span.slide == 0
    }
    cuts |= {
        time
        for span in some
        for time in range(-200, 200)
        if (time - span.offset + span.size) % span.slide == 0
    }
    for time, pane in zip(times, numbers, strict=True):
        start, end = panes.start(pane), panes.start(pane + 1)
        assert start <= time < end
        assert start in cuts
        assert end in cuts
        assert not any(start < cut < end for cut in cuts)
