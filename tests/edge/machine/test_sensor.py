"""A sensor: room, lateness, boundaries, owners, replay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from holdfast.edge.machine import SensorOptions
from holdfast.edge.machine.messages import (
    Events,
    Fenced,
    Gap,
    Guarantee,
    Lost,
    Resume,
    RootTime,
    Safe,
    Send,
    SensorHello,
    SensorWelcome,
)
from holdfast.edge.machine.sensor import Sensor
from holdfast.errors import InvalidArgumentError
from holdfast.groups import Claim

CLAIMS = (Claim(0, 1, "a"), Claim(1, 1, "b"))
OPTIONS = SensorOptions(capacity=10, frame=4, pulse=100, retry=100)


def welcome(
    options: SensorOptions = OPTIONS, guarantee: Guarantee = "exactly-once", start: int = 0
) -> Sensor:
    sensor = Sensor("s", ["a", "b"], options)
    sensor.receive("a", RootTime("s", 0, 0), 0)
    sensor.receive("a", SensorWelcome("g", start, CLAIMS, {}, guarantee), 0)
    return sensor


def frames(sends: list[Send]) -> list[tuple[str, int, list[float], int]]:
    return [
        (send.to, send.message.first, send.message.values.tolist(), send.message.boundary)
        for send in sends
        if isinstance(send.message, Events)
    ]


def test_it_asks_one_after_the_other_until_it_is_let_in() -> None:
    sensor = Sensor("s", ["a", "b"], OPTIONS)
    assert sensor.join(7, 0) == [Send("a", SensorHello("s", 7, clock=0))]
    assert sensor.wake(50) == []
    assert sensor.wake(100) == [Send("b", SensorHello("s", 7, clock=100))]
    assert sensor.emit([1], [1.0], None, 100) == (0, [])
    sensor.receive("b", SensorWelcome("g", 0, (), {}), 110)
    assert not sensor.is_member, "nobody owns anything yet"
    sensor.receive("b", SensorWelcome("g", 0, CLAIMS, {}), 120)
    assert not sensor.is_member, "it does not know the root's clock"
    sensor.receive("b", RootTime("s", 100, 105), 120)
    sensor.receive("b", SensorWelcome("g", 0, CLAIMS, {}), 120)
    assert sensor.is_member
    with pytest.raises(InvalidArgumentError, match="at least one child"):
        Sensor("s", [])


def test_events_are_numbered_in_each_partition() -> None:
    sensor = welcome()
    dealt, sends = sensor.emit([1, 2, 3], [0.1, 0.2, 0.3], None, 10)
    assert dealt == 3
    assert frames(sends) == [("a", 1, [0.1, 0.3], 3), ("b", 1, [0.2], 3)]
    assert (
        frames(sensor.emit([3, 5], [0.4, 0.5], None, 20)[1])
        == [
            ("b", 2, [0.4], 5),
            ("a", 3, [0.5], 5),
        ][::-1]
    )


def test_in_the_middle_of_a_replay_the_boundary_is_that_of_the_next_event() -> None:
    sensor = welcome(replace(OPTIONS, partitioner="primary"))
    (place,) = {send.to for send in sensor.emit(range(1, 11), [1.0] * 10, None, 10)[1]}
    partition = {"a": 0, "b": 1}[place]
    sends = sensor.receive(place, Resume(partition, 1, place, 0), 20)
    assert [(first, bound) for _, first, _, bound in frames(sends)] == [(1, 5), (5, 9), (9, 10)]
    assert all(send.message.replayed for send in sends)


@pytest.mark.parametrize(("on_full", "dealt", "buffered"), [("wait", 20, 20), ("drop", 26, 20)])
def test_a_full_buffer_waits_or_drops(on_full: str, dealt: int, buffered: int) -> None:
    sensor = welcome(replace(OPTIONS, on_full=on_full))
    assert sensor.emit(range(26), [1.0] * 26, None, 10)[0] == dealt
    assert sensor.buffered == buffered
    sensor.receive("a", Safe(0, 1, "a", 6), 20)
    sensor.receive("b", Safe(1, 1, "b", 6), 20)
    assert sensor.emit(range(26, 30), [1.0] * 4, None, 30)[0] == 4


def test_what_waits_is_dealt_with_later_once() -> None:
    sensor = welcome()
    times = [*range(25), 3, 30]
    values = [*([1.0] * 24), np.nan, 1.0, 1.0]
    dealt, _ = sensor.emit(times, values, None, 10)
    assert (dealt, sensor.taken, sensor.rejected, sensor.late) == (20, 20, 0, 0)
    for partition, node in ((0, "a"), (1, "b")):
        sensor.receive(node, Safe(partition, 1, node, 10), 20)
    rest, _ = sensor.emit(times[dealt:], values[dealt:], None, 30)
    assert (rest, sensor.taken, sensor.rejected, sensor.late) == (7, 25, 1, 1)


def test_late_events_are_refused_and_counted() -> None:
    sensor = welcome(replace(OPTIONS, lateness=10), start=100)
    dealt, sends = sensor.emit([99, 100, 120, 111, 109, 125], [1.0] * 6, None, 10)
    assert (dealt, sensor.taken, sensor.late) == (6, 4, 2)
    assert sensor.boundary == 115
    assert {send.message.late for send in sends} == {0, 2}, "told in one partition"


def test_a_silent_sensor_tells_the_boundary() -> None:
    sensor = welcome()
    sensor.emit([1, 2], [1.0, 1.0], None, 10)
    sends = sensor.advance(1_000, 200)
    assert frames(sends) == [("a", 2, [], 1_000), ("b", 2, [], 1_000)]
    assert sensor.due(200) == 300


def test_the_largest_claim_is_obeyed() -> None:
    sensor = welcome()
    sensor.emit([1, 2, 3, 4], [1.0] * 4, None, 10)
    sends = sensor.receive("b", Resume(0, 2, "b", 1), 20)
    assert sends[0] == Send("a", Fenced(0, 2, "b"))
    assert frames(sends) == [("b", 2, [1.0], 4)]
    assert sensor.owners == {0: "b", 1: "b"}
    assert sensor.receive("a", Resume(0, 1, "a", 0), 30) == [Send("a", Fenced(0, 2, "b"))]
    assert sensor.receive("a", Safe(0, 1, "a", 2), 30) == [Send("a", Fenced(0, 2, "b"))]
    assert sensor.buffered == 4, "the word of a fenced owner frees nothing"
    assert frames(sensor.emit([9], [7.0], None, 40)[1])[0] == ("b", 3, [7.0], 9)


def test_what_is_gone_is_said() -> None:
    sensor = welcome()
    sensor.emit(range(1, 11), [1.0] * 10, None, 10)
    sensor.receive("a", Safe(0, 1, "a", 3), 20)
    (send,) = sensor.receive("b", Resume(0, 2, "b", 1), 30)[1:]
    assert send == Send("b", Lost("s", 0, 2, 1, 0, (Gap(3, 2, 5),)))


def test_at_most_once_nothing_is_kept() -> None:
    sensor = welcome(guarantee="at-most-once")
    sensor.emit([1, 2, 3, 4], [1.0] * 4, None, 10)
    assert sensor.buffered == 0
    sends = sensor.receive("b", Resume(0, 2, "b", 0), 20)
    assert [send for send in sends if isinstance(send.message, Lost)] == []
    assert frames(sensor.emit([5], [1.0], None, 30)[1]) == [("b", 3, [1.0], 5)]


def test_a_long_replay_goes_in_bursts() -> None:
    sensor = welcome(replace(OPTIONS, capacity=1_000, burst=2, pause=10))
    sends = sensor.emit(range(100), [1.0] * 100, None, 10)[1]
    assert [first for to, first, *_ in frames(sends) if to == "a"] == [1, 5]
    due = sensor.due(10)
    assert due == 20
    assert [first for to, first, *_ in frames(sensor.wake(due)) if to == "a"] == [9, 13]
