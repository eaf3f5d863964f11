"""Shard windows put on shelves between batches, next to ones that stay in memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.windows import columns as c
from holdfast.windows import monoids as m
from holdfast.windows.shard import ShardWindow, Span
from holdfast.windows.shard.saved import SavedShard, SignatureError
from holdfast.windows.shard.shelves import MemoryShelf
from holdfast.windows.stores.codec import StateCodec
from tests.windows.shard.model import concat

SPEC = {
    "n": (c.COUNT, None),
    "total": (c.SUM, "v"),
    "words": (concat, "w"),
    "list": (m.collect, "v"),
}


class EncodedShelf(MemoryShelf):
    """Everything goes through bytes, as in a real store; reads and writes are counted."""

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


class Saved:
    """A shard window that is opened anew for every call, as if each were a batch of its own."""

    def __init__(self, *spans: Span, linger: int | None = None, spec=SPEC, signature="one") -> None:
        self.parts, self.pairs = EncodedShelf(), EncodedShelf()
        self.spans, self.linger, self.spec, self.signature = spans, linger, spec, signature

    def open(self) -> SavedShard:
        first, *more = self.spans

        def make(open_amta):
            return ShardWindow(
                self.spec,
                first.size,
                first.slide,
                offset=first.offset,
                more=more,
                linger=self.linger,
                open_amta=open_amta,
            )

        return SavedShard(make, self.signature, self.parts, self.pairs)

    def __getattr__(self, verb):
        def call(*arguments, **columns):
            saved = self.open()
            answer = getattr(saved.window, verb)(*arguments, **columns)
            saved.save()
            return answer

        return call


def told(emissions):
    return [
        (
            e.span,
            e.start,
            e.end,
            {key: tuple(e[name][i] for name in SPEC) for i, key in enumerate(e.keys.tolist())},
            sorted(e.names.read(e.idle).tolist(), key=repr),
        )
        for e in emissions
    ]


spans = st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(-5, 5)).map(
    lambda s: Span(max(s[:2]), min(s[:2]), s[2])
)
batches = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(-6, 14), st.sampled_from(["a", "b", None, 7, (1, "x")]))),
        st.one_of(st.integers(0, 9), st.just(60)),
    ),
    max_size=25,
)


@settings(max_examples=150)
@given(
    some=st.lists(spans, min_size=1, max_size=3),
    linger=st.one_of(st.none(), st.integers(0, 20)),
    batches=batches,
)
def test_a_saved_window_answers_as_one_that_stays(some, linger, batches):
    first, *more = some
    stays = ShardWindow(
        SPEC, first.size, first.slide, offset=first.offset, more=more, linger=linger
    )
    saved = Saved(*some, linger=linger)
    time, number = 0, 0
    for rows, step in batches:
        times = [time + at for at, _ in rows]
        keys = [key for _, key in rows]
        values = list(range(number, number + len(rows)))
        number += len(rows)
        words = [str(value % 7) for value in values]
        late = stays.add(times, keys, v=values, w=words)
        assert saved.add(times, keys, v=values, w=words).tolist() == late.tolist()
        assert told(saved.preview()) == told(stays.preview())
        time += step
        assert told(saved.advance(time)) == told(stays.advance(time))
        assert saved.next_end() == stays.next_end()
    assert saved.open().window.keys == stays.keys
    # Nothing that is no longer needed stays on the shelves.
    stays.advance(time + 1000)
    saved.advance(time + 1000)
    assert saved.pairs.records == {}
    assert not [at for at in saved.parts.records if at[0] not in ("meta", "names", "known")]


@pytest.mark.parametrize("size", [64, 1024])
def test_a_batch_reads_and_writes_few_records_whatever_the_size(size):
    saved = Saved(Span(size, 1))
    for time in range(2 * size):
        saved.add([time], ["a"], v=[time], w=["x"])
        saved.advance(time)
    reads, writes = [], []
    for time in range(2 * size, 3 * size):
        saved.pairs.reads = saved.pairs.writes = saved.parts.reads = 0
        saved.add([time], ["a"], v=[time], w=["x"])
        saved.advance(time)
        reads.append(saved.pairs.reads)
        writes.append(saved.pairs.writes)
        assert saved.parts.reads <= 2 * (3 * np.log2(size) + 8)
    assert max(reads) <= 2 * np.log2(size)
    assert np.mean(reads) <= 1.1
    assert max(writes) <= np.log2(size) + 1
    assert np.mean(writes) <= 1.1


def test_keys_that_keep_coming_are_written_as_they_come_and_forgotten_in_the_end():
    saved = Saved(Span(4, 1))
    for time in range(500):
        saved.add([time] * 3, [f"{time}-{i}" for i in range(3)], v=[1, 2, 3], w=["x"] * 3)
        saved.advance(time)
    names = [at for at in saved.parts.records if at[0] == "names"]
    assert len(names) <= 64
    assert len(saved.open().window._registry) < 200


def test_a_window_of_another_kind_is_not_opened():
    saved = Saved(Span(4, 1))
    saved.add([1], ["a"], v=[1], w=["x"])
    saved.signature = "two"
    with pytest.raises(SignatureError, match="the state is of one; this window is two"):
        saved.open()


def test_shelves_can_be_exchanged_between_batches():
    saved = Saved(Span(8, 1))
    shard = saved.open()
    for time in range(40):
        shard.window.add([time], ["a"], v=[1], w=["x"])
        ended = shard.window.advance(time)
        shard.save()
        parts, pairs = EncodedShelf(), EncodedShelf()
        parts.records, pairs.records = dict(saved.parts.records), dict(saved.pairs.records)
        saved.parts, saved.pairs = parts, pairs
        shard.move(parts, pairs)
    assert [e["total"].tolist() for e in ended] == [[8]]
    assert [e["total"].tolist() for e in saved.advance(40)] == [[8]]
