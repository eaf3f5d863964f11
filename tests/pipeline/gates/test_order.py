"""The gate over several streams: one order, and a clock that knows how long to wait."""

from __future__ import annotations

import math
from random import Random

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.gates.order import Delays, Order, Stretch, Variant
from holdfast.pipeline.machine.tuples import Row, Segment, weight_of

SIZE = 10
P, D, S = Variant.PROCESS, Variant.DELAY, Variant.SUSPEND


def make(*streams: str, now: int = 0, **delays: object) -> Order:
    return Order(streams or ("a", "b"), SIZE, Delays(**delays), now)  # type: ignore[arg-type]


def piece(start: int, end: int, *stimes: int, value: object = 0) -> Segment:
    return Segment(start, end, tuple(Row(stime, "k", value) for stime in stimes))


def fill(gate: Order, until: int, *, lag: int = 2, start: int = 0) -> None:
    """All streams, bucket by bucket, each complete so long after its end; and processed."""
    for k in range(start // SIZE, until // SIZE):
        for stream in gate.streams:
            gate.take(stream, piece(k * SIZE, (k + 1) * SIZE), (k + 1) * SIZE + lag)
        process(gate)


def process(gate: Order) -> Stretch:
    stretch = gate.next_stable()
    assert stretch is not None
    gate.base_done(stretch)
    return stretch


def release(gate: Order) -> list[Stretch]:
    released = []
    while gate.backlog:
        released.append(process(gate))
    return released


def preview(gate: Order, now: int = 0) -> Stretch:
    return gate.next_preview(now, correcting=False)


# Order


def test_all_before_the_smallest_boundary_can_be_ordered() -> None:
    """Figure 4-7 of the thesis, with buckets of 1: 20 at first, then 25, 27 and 27 again."""
    gate = Order(("s1", "s2", "s3"), 1, Delays(), 0)
    for stream, end in (("s1", 20), ("s2", 25), ("s3", 30)):
        gate.take(stream, piece(0, end), 0)
    assert gate.complete == 20
    gate.take("s1", piece(20, 25), 1)
    gate.take("s2", piece(25, 27), 1)
    assert gate.complete == 25
    gate.take("s1", piece(25, 33), 2)
    assert gate.complete == 27
    gate.take("s3", piece(30, 40), 3)
    assert gate.complete == 27


@pytest.mark.parametrize(("end", "complete"), [(9, 0), (10, 1), (11, 1), (19, 1), (20, 2)])
def test_a_bucket_is_complete_when_the_boundary_is_at_its_end(end: int, complete: int) -> None:
    gate = make("a")
    gate.take("a", piece(0, end), 0)
    assert gate.complete == complete


def test_a_row_at_the_edge_belongs_to_the_next_bucket() -> None:
    gate = make("a")
    gate.take("a", piece(0, 20, 9, 10, 19), 0)
    first, second = release(gate)
    assert [row.stime for row in first.rows["a"]] == [9]
    assert [row.stime for row in second.rows["a"]] == [10, 19]
    assert (second.first, second.start, second.end) == (1, 10, 20)


@pytest.mark.parametrize("seed", range(50))
def test_the_order_is_the_same_whatever_the_order_of_arrival(seed: int) -> None:
    random = Random(seed)
    inputs = {
        stream: [
            Row(stime, random.randrange(3), f"{stream}{i}")
            for i, stime in enumerate(sorted(random.choices(range(60), k=40)))
        ]
        for stream in "abc"
    }
    assert len({arrive(inputs, Random(f"{seed}/{n}")) for n in range(5)}) == 1


def arrive(inputs: dict[str, list[Row]], random: Random) -> str:
    """What is released if the streams come in pieces of any size, in turns of any order."""
    gate = make(*inputs)
    places = dict.fromkeys(inputs, 0)
    released: list[Stretch] = []
    while any(place < 60 for place in places.values()):
        stream = random.choice([name for name, place in places.items() if place < 60])
        start = places[stream]
        end = places[stream] = min(60, start + random.choice([1, 4, 10, 13, 25]))
        rows = tuple(row for row in inputs[stream] if start <= row.stime < end)
        gate.take(stream, Segment(start, end, rows), 0)
        released += release(gate)
    assert [bucket.first for bucket in released] == list(range(6))
    return repr(released)


def test_equal_rows_keep_the_order_of_their_stream() -> None:
    gate = make("a")
    rows = tuple(Row(3, "k", value) for value in (3, 1, 2))
    gate.take("a", Segment(0, 10, rows), 0)
    [bucket] = release(gate)
    assert tuple(bucket.rows["a"]) == rows


def test_the_sort_can_be_chosen() -> None:
    gate = Order(("a",), SIZE, Delays(), 0, sort=lambda row: -row.value)
    gate.take("a", Segment(0, 10, tuple(Row(i, "k", i) for i in range(3))), 0)
    [bucket] = release(gate)
    assert [row.value for row in bucket.rows["a"]] == [2, 1, 0]


def test_silence_with_boundaries_is_progress_and_without_them_is_not() -> None:
    gate = make("a", "b", max_delay=50)
    for k in range(5):
        gate.take("a", piece(k * 10, k * 10 + 10, k * 10), k * 10 + 10)
        gate.take("b", piece(k * 10, k * 10 + 10), k * 10 + 10)
    assert gate.complete == 5
    assert gate.due(correcting=False) == math.inf
    release(gate)
    gate.take("a", piece(50, 60, 55), 60)
    assert gate.complete == 5
    assert gate.due(correcting=False) < math.inf


# When to preview


@pytest.mark.parametrize("lag", [0, 2, 7])
def test_the_first_preview_is_due_a_delay_after_the_bucket_is_usually_complete(lag: int) -> None:
    gate = make(max_delay=50, headroom=5)
    fill(gate, 100, lag=lag)
    gate.take("a", piece(100, 110, 105), 111)
    assert gate.due(correcting=False) == 110 + lag + 45


def test_before_anything_was_complete_the_clock_runs_from_the_beginning() -> None:
    gate = make(now=1000, max_delay=50)
    gate.take("a", piece(0, 10), 1003)
    assert gate.due(correcting=False) == 1000 + SIZE + 50


def test_what_comes_late_as_a_preview_is_not_delayed_again() -> None:
    """In a chain all gates wait from the same moment; what the first one sends when its delay has
    run out goes through the others at once."""
    first, second = make(max_delay=50), make("c", "d", max_delay=50)
    fill(first, 100)
    fill(second, 100, lag=4)
    first.take("a", piece(100, 110, 105), 111)
    due = first.due(correcting=False)
    assert due == 162
    second.take("c", piece(100, 110), 112)
    assert second.due(correcting=False) == 164
    second.preview("d", piece(100, 110, 105), 167)
    assert second.due(correcting=False) == 164


def test_a_bucket_that_came_after_its_time_is_due_at_once() -> None:
    gate = make("a", max_delay=50)
    fill(gate, 100)
    gate.preview("a", piece(100, 110, 105), 400)
    assert gate.due(correcting=False) == 400


def test_without_any_row_or_boundary_of_a_bucket_nothing_is_due() -> None:
    gate = make(max_delay=50)
    fill(gate, 100)
    assert gate.due(correcting=False) == math.inf


def test_an_infinite_delay_is_never_due() -> None:
    gate = make()
    fill(gate, 100)
    gate.take("a", piece(100, 200), 200)
    gate.preview("b", piece(100, 200), 200)
    assert gate.due(correcting=False) == math.inf
    assert gate.due(correcting=True) == math.inf


def test_a_stream_can_have_a_shorter_delay_but_not_a_longer_one() -> None:
    delays = {"a": 20, "b": 90}
    for stream, expected in (("a", 20), ("b", 50)):
        gate = make("a", "b", "c", max_delay=50, inputs=delays)
        fill(gate, 100)
        gate.take(stream, piece(100, 110), 111)
        assert gate.due(correcting=False) == 112 + expected
    gate.take("a", piece(100, 110), 111)
    assert gate.due(correcting=False) == 112 + 20


def test_what_is_complete_is_never_due() -> None:
    gate = make(max_delay=50)
    fill(gate, 100)
    for stream in ("a", "b"):
        gate.take(stream, piece(100, 110), 111)
    assert gate.due(correcting=False) == math.inf
    gate.take("a", piece(110, 120), 121)
    assert gate.due(correcting=False) == math.inf
    process(gate)
    assert gate.due(correcting=False) == 171


def fork_at(gate: Order, until: int = 110) -> None:
    """Stream b is missing; the gate has begun to preview."""
    fill(gate, 100)
    gate.take("a", piece(100, until, 105), until + 1)
    gate.fork_done(preview(gate))


@pytest.mark.parametrize(
    ("failing", "correcting", "when_failing", "when_correcting"),
    [
        (P, P, 131, 131),
        (P, D, 131, 131 + 50),
        (P, S, 131, math.inf),
        (D, P, 131 + 50, 131),
        (D, D, 131 + 50, 131 + 50),
        (D, S, 131 + 50, math.inf),
        (S, P, math.inf, 131),
        (S, D, math.inf, 131 + 50),
        (S, S, math.inf, math.inf),
    ],
)
def test_after_the_first_preview_the_variant_says_how_long_others_wait(
    failing: Variant, correcting: Variant, when_failing: float, when_correcting: float
) -> None:
    gate = make(max_delay=50, failing=failing, correcting=correcting)
    fork_at(gate)
    assert gate.due(correcting=False) == math.inf
    gate.take("a", piece(110, 120), 131)
    assert gate.due(correcting=False) == when_failing
    assert gate.due(correcting=True) == when_correcting


def test_nothing_is_previewed_while_buckets_are_complete_when_they_usually_are() -> None:
    gate = make(max_delay=50)
    fork_at(gate, 120)
    gate.take("b", piece(100, 110), 112)
    assert gate.due(correcting=True) == 110 + 10 + 2 + 10, "a bucket after the first one is missed"
    gate.take("a", piece(120, 200), 113)
    assert gate.due(correcting=True) == 110 + 10 + 2 + 10


@pytest.mark.parametrize("variant", [P, D, S])
def test_the_first_wait_is_the_whole_delay_in_every_variant(variant: Variant) -> None:
    gate = make(max_delay=50, failing=variant, correcting=variant)
    fill(gate, 100)
    gate.take("a", piece(100, 110), 111)
    assert gate.due(correcting=False) == 162


def test_with_patience_a_bucket_waits_a_little_for_the_other_streams() -> None:
    gate = make("a", "b", "c", max_delay=50, patience=7)
    fork_at(gate)
    gate.take("a", piece(110, 120), 121)
    assert gate.due(correcting=False) == 121 + 7
    gate.preview("b", piece(110, 120), 124)
    assert gate.due(correcting=False) == 121 + 7
    gate.preview("c", piece(110, 120), 125)
    assert gate.due(correcting=False) == 125


def test_what_seems_missing_after_a_pause_is_excused() -> None:
    gate = make(max_delay=50)
    fill(gate, 100)
    gate.take("a", piece(100, 110), 111)
    gate.excuse(500)
    assert gate.due(correcting=False) == 500 + SIZE + 50


def test_after_our_clock_was_set_nothing_is_missed_that_comes_as_usual() -> None:
    """By the clock as it was before, everything would come far too late."""
    gate, step = make(max_delay=50), 3_600
    fill(gate, 100)
    gate.excuse(100 + step)
    for k in range(10, 80):
        end = (k + 1) * SIZE
        gate.take("a", piece(k * SIZE, end), end + step + 2)
        assert gate.due(correcting=False) > end + step + 4
        gate.take("b", piece(k * SIZE, end), end + step + 4)
        process(gate)
    # What does not come is missed as ever.
    gate.take("a", piece(800, 810), 812 + step)
    assert gate.due(correcting=False) == 810 + step + 4 + 50


@pytest.mark.parametrize("phase", [1, 15, 60])
@pytest.mark.parametrize("variant", [P, D])
def test_what_comes_later_and_later_while_a_clock_is_waited_for_is_not_missed(
    variant: Variant, phase: int
) -> None:
    """Buckets of 90 come every 100: a source waits for the clock of its machine, which may take ten
    hours."""
    size, delay = 90, 270
    delays = Delays(delay, failing=variant, correcting=variant, patience=7)
    gate = Order(("a", "b"), size, delays, 0)

    def run(first: int, stop: int, start: int, every: int, noise: int = 0) -> int:
        for k in range(first, stop):
            now = start + (k + 1 - first) * every + k * 7 % (noise + 1)
            bucket = piece(k * size, (k + 1) * size)
            gate.take("a", bucket, now)
            assert gate.due(correcting=False) > now + phase, f"bucket {k}"
            gate.take("b", bucket, now + phase)
            process(gate)
        return start + (stop - first) * every

    caught_up = run(80, 300, run(0, 80, 0, size), 100, noise=20)
    run(300, 400, caught_up, size)
    # What does not come is missed as ever.
    gate.take("a", piece(400 * size, 401 * size), caught_up + 101 * size)
    usual = caught_up + 101 * size + phase
    assert usual - size < gate.due(correcting=False) - delay <= usual


@pytest.mark.parametrize("late", [SIZE // 2, SIZE, 4 * SIZE])
def test_what_is_late_for_a_while_is_not_usual(late: int) -> None:
    gate = make(max_delay=50)
    fill(gate, 200)
    for k in range(20, 60):
        end = (k + 1) * SIZE
        for stream in gate.streams:
            gate.take(stream, piece(k * SIZE, end), end + 2 + late + k * 7 % 5)
        process(gate)
    gate.take("a", piece(600, 610), 611)
    assert gate.due(correcting=False) == 662


# Previews


def test_a_preview_has_what_there_is() -> None:
    gate = make("a", "b", "c", max_delay=50)
    fill(gate, 100)
    gate.take("a", piece(100, 110, 101, 108), 111)
    gate.preview("b", piece(100, 110, 103), 111)
    bucket = preview(gate)
    assert {s: [r.stime for r in rows] for s, rows in bucket.rows.items()} == {
        "a": [101, 108],
        "b": [103],
        "c": [],
    }
    assert gate.fork == 10


def test_a_stable_part_of_a_bucket_is_filled_up_with_previews() -> None:
    gate = make("a", "b", max_delay=50)
    fill(gate, 100)
    gate.preview("a", piece(100, 110, 102, 107, value="guess"), 111)
    gate.take("a", piece(100, 105, 103, value="right"), 112)
    bucket = preview(gate)
    assert [(r.stime, r.value) for r in bucket.rows["a"]] == [(103, "right"), (107, "guess")]


def test_later_previews_take_the_place_of_earlier_ones() -> None:
    gate = make("a", "b", max_delay=50)
    gate.preview("a", piece(0, 10, 1, 5, value="old"), 1)
    gate.preview("a", piece(5, 12, 6, 11, value="new"), 2)
    bucket = preview(gate)
    assert [(r.stime, r.value) for r in bucket.rows["a"]] == [(1, "old"), (6, "new")]


def test_the_base_never_sees_a_preview() -> None:
    gate = make("a", "b", max_delay=50)
    gate.preview("a", piece(0, 20, 3, 13, value="guess"), 10)
    gate.take("b", piece(0, 20), 10)
    assert gate.next_stable() is None
    gate.take("a", piece(0, 10, 4, value="right"), 15)
    bucket = gate.next_stable()
    assert bucket is not None
    assert [(r.stime, r.value) for r in bucket.rows["a"]] == [(4, "right")]


def test_previews_of_what_is_stable_are_left() -> None:
    gate = make("a")
    gate.take("a", piece(0, 10), 10)
    gate.preview("a", piece(0, 10, 3), 11)
    assert gate.buffered == 0


def test_base_and_fork_go_their_own_ways_and_meet() -> None:
    gate = make(max_delay=50)
    fill(gate, 100)
    gate.take("a", piece(100, 140, 105, 115, 125), 141)
    for _ in range(3):
        gate.fork_done(preview(gate))
    assert (gate.base, gate.fork, gate.backlog) == (10, 13, 0)
    gate.take("b", piece(100, 130), 150)
    assert (gate.complete, gate.backlog) == (13, 3)
    assert [bucket.first for bucket in release(gate)] == [10, 11, 12]
    gate.join()
    assert gate.fork is None
    assert gate.due(correcting=False) < math.inf


# Memory and restarts


def test_rows_are_kept_until_they_are_safe() -> None:
    gate = make("a")
    for k in range(10):
        gate.take("a", piece(k * 10, k * 10 + 10, k * 10), k * 10)
    release(gate)
    assert gate.buffered == 10
    gate.forget(7)
    assert (gate.buffered, gate.kept) == (3, 7)
    gate.forget(3)
    assert (gate.buffered, gate.kept) == (3, 7)
    gate.rewind(8)
    assert [bucket.first for bucket in release(gate)] == [8, 9]
    gate.forget(10)
    assert gate.buffered == 0


def test_what_was_lost_is_released_again_as_it_was() -> None:
    gate = make()
    for stream in gate.streams:
        gate.take(stream, piece(0, 50, 1, 22, 35), 50)
    before = release(gate)
    assert [(each.first, each.stop) for each in before] == [(0, 2), (2, 3), (3, 5)]
    gate.forget(2)
    gate.rewind(2)
    assert (gate.base, gate.fork) == (2, None)
    assert release(gate) == before[1:]


# Several buckets at once


def test_buckets_without_rows_are_released_together() -> None:
    gate = make("a")
    gate.take("a", piece(0, 10**15, 10**15 - 1), 0)
    assert [(each.first, each.stop) for each in release(gate)] == [(0, 10**14)]


def test_no_more_buckets_with_rows_are_released_than_asked_for() -> None:
    gate = Order(("a",), SIZE, Delays(), 0, sort=lambda row: -row.stime)
    gate.take("a", piece(0, 70, 1, 3, 11, 12, 35, 55), 0)
    stretch = gate.next_stable(3)
    assert stretch is not None
    assert (stretch.first, stretch.stop, stretch.start, stretch.end) == (0, 5, 0, 50)
    assert [row.stime for row in stretch.rows["a"]] == [3, 1, 12, 11, 35], "sorted by bucket"
    gate.base_done(stretch)
    assert [(each.first, each.stop) for each in release(gate)] == [(5, 7)]


def test_what_is_due_and_has_no_rows_is_previewed_at_once() -> None:
    gate = make(max_delay=50)
    gate.take("a", piece(0, 10**15), 100)
    gate.take("a", piece(10**15, 10**15 + 20, 10**15 + 15), 120)
    stretch = preview(gate, now=10**6)
    assert (stretch.first, stretch.stop) == (0, 10**14 + 2)
    assert len(stretch.rows["a"]) == 1


def test_no_more_buckets_with_rows_are_previewed_than_asked_for() -> None:
    gate = make(max_delay=50)
    gate.take("a", piece(0, 70, 5, 15, 35, 55), 70)
    stretch = gate.next_preview(10**6, correcting=False, most=2)
    assert (stretch.first, stretch.stop) == (0, 3), "the bucket at 30 has rows again"
    gate.fork_done(stretch)
    assert gate.next_preview(10**6, correcting=False, most=2).stop == 7


def test_what_is_not_due_is_not_previewed_with_what_is() -> None:
    gate = make(max_delay=50, failing=D)
    for k in range(4):
        gate.take("a", piece(k * SIZE, k * SIZE + SIZE), k * SIZE + SIZE)
    assert preview(gate, now=70).stop == 2, "those that were reached 50 ago"


def test_previews_go_when_the_stable_rows_come() -> None:
    gate = make(max_delay=50)
    for k in range(5):
        gate.preview("a", piece(k * 10, k * 10 + 10, k * 10 + 1), k * 10)
    assert gate.buffered == 5
    gate.take("a", piece(0, 30), 60)
    assert gate.buffered == 2


def test_previews_go_when_the_fork_has_done_them() -> None:
    """In a long failure the base does not come to them, and their room is for newer ones."""
    gate = make(max_delay=50)
    fill(gate, 100)
    gate.preview("a", piece(100, 140, 105, 115, 125, 135), 141)
    gate.fork_done(preview(gate))
    assert gate.fork == 11
    assert gate.buffered == 3
    assert gate.held_in_memory == weight_of([Row(n, "k", 0) for n in (115, 125, 135)])


def test_a_jump_gives_up_what_is_before_it() -> None:
    gate = make(max_delay=50)
    gate.take("a", piece(0, 95, *range(0, 95, 5)), 95)
    gate.preview("b", piece(0, 40, 5), 95)
    gate.jump(7)
    assert (gate.base, gate.kept, gate.complete, gate.backlog) == (7, 7, 7, 0)
    assert gate.boundary("a") == 95
    assert gate.boundary("b") == 70
    assert gate.buffered == 3
    gate.take("b", piece(70, 80, 71), 101)
    [bucket] = release(gate)
    assert [row.stime for row in bucket.rows["a"]] == [70, 75]
    assert [row.stime for row in bucket.rows["b"]] == [71]


def test_a_jump_puts_no_preview_off() -> None:
    """Where memory is bounded, stretch after stretch may be given up while a stream is missing."""
    gate = make(max_delay=50)
    gate.excuse(0)
    for number in range(1, 20):
        gate.take("a", piece(number * 10 - 10, number * 10, number * 10 - 5), number * 10)
        gate.jump(number - 1)
    assert gate.due(False) <= 190


def test_a_jump_back_changes_nothing() -> None:
    gate = make()
    fill(gate, 100)
    gate.jump(5)
    assert (gate.base, gate.complete) == (10, 10)


@pytest.mark.parametrize("size", [3, 10, 25])
def test_pieces_need_not_be_buckets(size: int) -> None:
    gate = make("a", "b", max_delay=50)
    for start in range(0, 150, size):
        for stream in ("a", "b"):
            gate.take(stream, piece(start, start + size, *range(start, start + size)), start)
    assert gate.complete == 15
    for bucket in release(gate):
        expected = list(range(bucket.start, bucket.end))
        assert [row.stime for row in bucket.rows["a"]] == expected
        assert [row.stime for row in bucket.rows["b"]] == expected


def test_the_newest_bucket_is_that_of_the_stream_ahead() -> None:
    gate = make(max_delay=50)
    gate.take("a", piece(0, 35), 1)
    assert gate.newest == 3
    gate.preview("b", piece(0, 60), 1)
    assert gate.newest == 6


# Arguments


@pytest.mark.parametrize(("max_delay", "headroom"), [(0, 0), (10, 10), (10, 20), (10, -1)])
def test_delays_without_sense_are_refused(max_delay: int, headroom: int) -> None:
    with pytest.raises(InvalidArgumentError, match="max_delay"):
        Delays(max_delay, headroom)


def test_a_gate_needs_streams_and_buckets() -> None:
    with pytest.raises(InvalidArgumentError, match="streams"):
        Order((), SIZE, Delays(), 0)
    with pytest.raises(InvalidArgumentError, match="size"):
        Order(("a",), 0, Delays(), 0)
