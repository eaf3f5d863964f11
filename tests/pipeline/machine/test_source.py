"""A source stamps, logs, then publishes; and says the same again after a restart."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

import pytest

from holdfast.pipeline.machine.messages import (
    Feed,
    Heartbeat,
    Send,
    Stable,
    Subscribe,
    Unsubscribe,
    Vitals,
)
from holdfast.pipeline.machine.output_log import Retention
from holdfast.pipeline.machine.source import Log, Persist, Source
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Row, Segment

INTERVAL = 10


def make(*, ordered: bool = False, retain: float = math.inf, log: tuple[Log, ...] = ()) -> Source:
    return Source(
        "s", ("r",), interval=INTERVAL, ordered=ordered, retention=Retention(retain), log=log
    )


def segments(commands: list[Persist]) -> list[Segment]:
    return [command.entry.segment for command in commands]


def shown(sends: list[Send]) -> list[Segment]:
    found = []
    for send in sends:
        if isinstance(send.message, Feed):
            found += [item.segment for item in send.message.items if isinstance(item, Stable)]
    return found


@pytest.mark.parametrize(
    ("clock", "stimes"),
    [
        ([1, 3, 9], [1, 3, 9]),
        ([5, 3, 8], [5, 5, 8]),
        ([9, 0, 0, 9], [9, 9, 9, 9]),
    ],
)
def test_times_never_go_back(clock: list[int], stimes: list[int]) -> None:
    source = make()
    for now in clock:
        source.record("k", now, now)
    [segment] = segments(source.wake(10))
    assert [row.stime for row in segment.rows] == stimes


def test_a_reading_after_the_clock_was_set_back_is_not_before_the_boundary() -> None:
    source = make()
    source.wake(50)
    source.record("k", 1, 3)
    [segment] = segments(source.wake(60))
    assert (segment.start, segment.end) == (50, 60)
    assert [row.stime for row in segment.rows] == [50]


def test_a_reading_at_the_boundary_is_after_it() -> None:
    source = make()
    source.record("k", 1, 9)
    source.record("k", 2, 10)
    [segment] = segments(source.wake(10))
    assert [row.value for row in segment.rows] == [1]


def test_boundaries_go_out_without_readings() -> None:
    source = make()
    source.receive("r", Subscribe("s", 1, 0, 0))
    for now in (10, 20, 35):
        assert source.next_wake <= now
        for command in source.wake(now):
            assert shown(source.persisted(command.entry)) == [command.entry.segment]
    assert source.line.end == 30
    assert source.next_wake == 40
    assert source.wake(39) == []


def test_intervals_that_were_slept_through_are_one_segment() -> None:
    source = make()
    source.record("k", 1, 4)
    [segment] = segments(source.wake(57))
    assert (segment.start, segment.end) == (0, 50)


def test_nothing_is_published_before_it_is_logged() -> None:
    source = make()
    source.receive("r", Subscribe("s", 1, 0, 0))
    source.record("k", 1, 4)
    [command] = source.wake(10)
    assert source.line.end == 0
    assert source.receive("r", Subscribe("s", 2, 0, 0)) != []
    assert shown(source.persisted(command.entry)) == [Segment(0, 10, (Row(4, "k", 1),))]
    assert source.line.end == 10


def test_an_ordered_source_closes_an_interval_at_the_first_reading_after_it() -> None:
    source = make(ordered=True)
    assert source.record("k", 1, 3) == []
    assert source.record("k", 2, 9) == []
    [segment] = segments(source.record("k", 3, 12))
    assert [row.value for row in segment.rows] == [1, 2]
    assert (segment.start, segment.end) == (0, 10)
    assert source.wake(19) == []
    [segment] = segments(source.wake(20))
    assert [row.value for row in segment.rows] == [3]


def test_another_source_waits_for_the_clock() -> None:
    source = make()
    assert source.record("k", 1, 3) == []
    assert source.record("k", 3, 12) == []
    [segment] = segments(source.wake(12))
    assert [row.value for row in segment.rows] == [1]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_after_a_restart_the_stream_is_the_same_and_goes_on(seed: int, ordered: bool) -> None:
    random = Random(seed)
    log: list[Log] = []
    source = make(ordered=ordered)
    now = value = 0
    lost = set()
    pending: list[int] = []
    for _ in range(100):
        now += random.randrange(8)
        commands = source.wake(now) if now >= source.next_wake else []
        value += 1
        pending.append(value)
        commands += source.record("k", value, now - random.randrange(5))
        for command in commands:
            log.append(command.entry)
            pending = pending[len(command.entry.segment.rows) :]
            if random.random() < 0.8:
                source.persisted(command.entry)
            else:
                lost |= set(pending)
                pending = []
                source = make(ordered=ordered, log=tuple(log))
                break
    again = make(ordered=ordered, log=tuple(log))
    sends = again.receive("r", Subscribe("s", 1, 0, 0))
    read = shown(sends)
    while sends:
        beat = Heartbeat({}, read={"s": read[-1].end})
        _, *sends = again.receive("r", beat)
        read += shown(sends)
    assert read == [entry.segment for entry in log]
    for before, after in pairwise(read):
        assert before.end == after.start
    rows = [row for segment in read for row in segment.rows]
    assert [row.stime for row in rows] == sorted(row.stime for row in rows)
    assert [row.value for row in rows] == [
        v for v in range(1, value + 1) if v not in lost and v not in pending
    ]


def publish(source: Source, *ends: int) -> None:
    """A reading for each interval that ends at one of these times."""
    for end in ends:
        source.record("k", end, end - 10)
        for command in source.wake(end):
            source.persisted(command.entry)


def test_a_silent_source_is_never_full() -> None:
    source = make(retain=20)
    for now in range(10, 1000, 10):
        [command] = source.wake(now)
        source.persisted(command.entry)
    assert not source.line.is_full
    assert len(source.line.segments) == 1


def test_a_full_source_refuses_and_logs_none_of_it() -> None:
    source = make(retain=20)
    publish(source, 10, 20)
    assert source.line.is_full
    assert source.record("k", "refused", 25) == []
    assert (source.refused, source.wake(30), source.next_wake) == (1, [], math.inf)
    source.receive("r", Heartbeat({"s": 10}))
    assert source.next_wake == 30
    source.record("k", "taken", 31)
    [segment] = segments(source.wake(40))
    assert (segment.start, segment.end) == (20, 40)
    assert [row.value for row in segment.rows] == ["taken"]


def test_what_was_taken_in_before_it_was_full_is_logged_later() -> None:
    source = make(retain=20)
    source.record("k", "first", 0)
    [first] = source.wake(20)
    source.record("k", "early", 22)
    source.persisted(first.entry)
    assert source.wake(30) == []
    source.receive("r", Heartbeat({"s": 20}))
    [segment] = segments(source.wake(30))
    assert [row.value for row in segment.rows] == ["early"]


def test_a_source_says_how_far_it_is_and_takes_acknowledgements() -> None:
    source = make()
    publish(source, 10, 20)
    source.receive("r", Subscribe("s", 7, 0, 0))
    [answer] = source.receive("r", Heartbeat({"s": 10, "other": 50}))
    assert isinstance(answer.message, Vitals)
    progress = answer.message.streams["s"]
    assert (progress.state, progress.end, progress.start) == (State.STABLE, 20, 10)
    assert (progress.subscription, progress.sent) == (7, 1)
    source.receive("r", Unsubscribe("s", 7))
    assert source.line.progress("r", State.STABLE).subscription == -1
    assert source.receive("r", Subscribe("other", 8, 0, 0)) == []
