"""Whose clock counts, when a sensor is waited for, and when no longer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.edge.machine import Child, GroupPlan, Root, RootOptions, Sensor, SensorOptions
from holdfast.edge.machine.formation import name_of
from holdfast.edge.machine.messages import (
    Register,
    Registered,
    RootTime,
    SensorHello,
    SensorWelcome,
)
from holdfast.edge.machine.root import recall, remember
from holdfast.edge.machine.sensor import incarnation
from holdfast.groups import Claim
from tests.edge.machine.rig import CHILD, SENSOR, Rig

CLAIMS = (Claim(0, 1, "a"),)
MINUTE = 60_000_000
PLAN = (GroupPlan("g1", ("c0", "c1")),)


def entered(now: int, at: int, **options: int) -> Sensor:
    """A sensor that asked and was let in when its clock was at `now` and the root's at `at`."""
    sensor = Sensor("s", ["a"], replace(SensorOptions(capacity=100, pulse=10), **options))
    sensor.join(now, now)
    sensor.receive("a", RootTime("s", now, at), now)
    sensor.receive("a", SensorWelcome("g", at, CLAIMS, {}), now)
    assert sensor.is_member
    return sensor


@pytest.mark.parametrize(
    ("asked", "at", "answered", "ahead"),
    [
        (100, 100, 100, 0),
        (100, 150, 200, 0),
        (100, 150, 120, -30),
        (100, 40, 120, 60),
        (10 * MINUTE, 5, 10 * MINUTE + 20, 10 * MINUTE - 5),
        (5, 10 * MINUTE, 25, 25 - 10 * MINUTE),
    ],
)
def test_a_clock_is_corrected_by_no_more_than_is_sure(
    asked: int, at: int, answered: int, ahead: int
) -> None:
    """An answer that was long on its way allows many corrections: also none."""
    sensor = Sensor("s", ["a"])
    sensor.receive("a", RootTime("s", asked, at), answered)
    assert sensor.ahead == ahead
    assert asked <= sensor.ahead + at <= answered


def test_a_clock_is_followed_while_the_sensor_runs() -> None:
    sensor = entered(1_000, 1_000)
    sensor.receive("a", RootTime("s", 2_000, 2_600), 2_010)
    assert sensor.root_time(2_010) == 2_600


def test_events_of_the_future_are_refused_and_do_not_make_others_late() -> None:
    sensor = entered(10 * MINUTE, 0, ahead=1_000)
    now = 10 * MINUTE + 500
    assert sensor.emit([100, 5_000, 200, 1_500], [1.0] * 4, None, now)[0] == 4
    assert (sensor.taken, sensor.late, sensor.early) == (3, 0, 1)
    assert sensor.boundary == 1_500


def test_after_idle_time_goes_on_from_the_last_events() -> None:
    """Whether they were of now or of long ago; and no further than the clock has."""
    sensor = entered(10 * MINUTE, 10 * MINUTE, idle=100, lateness=20)
    sensor.boundary = 0
    now = 10 * MINUTE + 1_000
    sensor.emit([5_000], [1.0], None, now)
    for after in range(0, 100, 10):
        sensor.rest(now + after)
    assert sensor.boundary == 4_980
    for after in range(100, 400, 10):
        sensor.rest(now + after)
    assert sensor.boundary == 5_000 + 390 - 100 - 20


def test_a_sensor_that_stood_still_does_not_take_that_for_silence() -> None:
    sensor = entered(0, 0, idle=100)
    for now in range(0, 60, 10):
        sensor.rest(now)
    sensor.rest(5_000)
    assert sensor.boundary == 0
    assert sensor.emit([60, 4_000], [1.0] * 2, None, 5_010)[0] == 2
    assert sensor.late == 0


def test_a_sensor_that_ends_is_waited_for_no_longer() -> None:
    rig = Rig(2, 2)
    rig.emit(range(0, 1_500, 10))
    rig.emit(range(0, 700, 10), sensor="s1")
    rig.do("s1", rig.sensor("s1").leave(rig.now))
    rig.step(until=lambda: rig.sensor("s1").is_done)
    rig.kill("s1")
    rig.emit(range(1_500, 3_100, 10))
    rig.step(until=lambda: len(rig.windows) == 3)
    assert rig.answers() == [170, 100, 100]
    assert all(window.complete for window in rig.windows)
    assert [each.sensor for each in rig.root.groups["g1"].present] == ["s0"]


def test_when_all_have_ended_the_windows_of_their_events_come() -> None:
    rig = Rig(2, 2, linger=300)
    rig.emit(range(0, 1_500, 10))
    rig.emit(range(0, 700, 10), sensor="s1")
    for name in ("s0", "s1"):
        rig.do(name, rig.sensor(name).leave(rig.now))
    rig.step(until=lambda: all(rig.sensor(name).is_done for name in ("s0", "s1")))
    rig.kill("s0")
    rig.kill("s1")
    rig.step(until=lambda: len(rig.windows) == 2)
    rig.step(1_000)
    assert rig.answers() == [170, 50]
    assert all(window.complete for window in rig.windows)


def test_the_last_child_to_come_back_has_what_an_ended_sensor_said() -> None:
    """Its own copy went with its process, and the sensor is not there to ask."""
    rig = Rig(2, 2)
    rig.step(300)
    rig.emit(range(0, 700, 10), sensor="s1")
    rig.step(300)
    rig.do("s1", rig.sensor("s1").leave(rig.now))
    rig.step(until=lambda: rig.sensor("s1").is_done)
    rig.kill("s1")
    rig.restart("c0")
    rig.emit(range(0, 1_100, 10))
    rig.step(until=lambda: len(rig.windows) == 1)
    assert rig.answers() == [170]
    assert rig.windows[0].complete


def test_the_first_window_waits_for_the_sensors_that_are_expected() -> None:
    """Files of yesterday: the first one read must not run ahead of the second."""
    rig = Rig(2, 0, expected=("s0", "s1"), gather=1_000)
    first, second = (Sensor(name, ["c0", "c1"], SENSOR) for name in ("s0", "s1"))
    rig.parties["s0"] = first
    rig.do("s0", first.join(5_300, rig.now))
    rig.step(500)
    assert not first.is_member
    assert rig.root.awaited == {"sensors": ("s1",)}
    rig.parties["s1"] = second
    rig.do("s1", second.join(5_100, rig.now))
    rig.step(until=lambda: first.is_member and second.is_member)
    assert (first.start, second.start) == (5_300, 5_100)
    assert rig.root.groups["g1"].roster.origin == 5_100
    assert rig.root.awaited == {}


def test_nor_does_it_wait_for_ever() -> None:
    rig = Rig(2, 0, expected=("s0", "s1"), gather=1_000)
    begin = rig.now
    rig.add_sensor("s0")
    assert 1_000 <= rig.now - begin < 1_200


@pytest.mark.parametrize(
    ("time", "stamps", "start"),
    [(900, False, 900), (900, True, 1_000), (5_000, False, 1_000), (-9_000, False, 1_000)],
)
def test_a_sensor_takes_part_from_its_first_event_if_that_can_be(
    time: int, stamps: bool, start: int
) -> None:
    root = Root("root", RootOptions(plan=PLAN, ahead=2_000, history=5_000))
    for name in ("c0", "c1"):
        root.receive(name, Register(name, "child"), 0)
    hello = SensorHello("s", time, clock=7, stamps=stamps)
    sends = root.receive("c0", hello, 1_000)
    assert sends[0].message == RootTime("s", 7, 1_000)
    (sitting,) = root.groups["g1"].present
    assert sitting.start == start


def test_one_that_comes_back_with_an_earlier_clock_takes_its_place() -> None:
    """Once the one before has not been heard for a while; as long as it is heard it stays."""
    rig = Rig(2, 0, absence=1_000)
    options = replace(SENSOR, refresh=200)
    rig.add_sensor(incarnation("s", 900), options)
    zombie = rig.parties["s~5"] = Sensor("s~5", ["c0", "c1"], options)
    rig.do("s~5", zombie.join(0, rig.now))
    rig.step(3_000)
    assert not zombie.is_member
    rig.kill("s~900")
    rig.step(until=lambda: zombie.is_member)
    assert [name_of(each.sensor) for each in rig.root.groups["g1"].present] == ["s"]


def test_a_child_whose_clock_was_set_back_is_taken_in_again() -> None:
    """The root numbers its starts, and knows the number after a restart of its own."""
    rig = Rig(3, 1)
    rig.step(1_000)
    rig.kill("c1")
    again = rig.parties["c1"] = Child("c1", "root", CHILD, life=-5, now=rig.now)
    rig.step(until=lambda: again.owned == (1,))
    assert rig.child("c0").tenure.down == rig.child("c2").tenure.down == ()
    before = rig.root.formation.lives["c1"]
    other = Root("root", RootOptions(plan=(GroupPlan("g1", ("c0", "c1", "c2")),)))
    recall(other, remember(rig.root), 0)
    (send,) = other.receive("c1", Register("c1", "child", life=-9), 0)
    assert isinstance(send.message, Registered)
    assert send.message.life > before[1]


def test_the_place_of_an_earlier_start_is_not_taken() -> None:
    """Its number is not the one that the others would know this start by."""
    root = Root("root", RootOptions(plan=(GroupPlan("g1", ("c0",)),)))
    (late,) = root.receive("c0", Register("c0", "child", life=1), 10)
    child = Child("c0", "root", CHILD, life=2)
    child.receive("root", late.message, 20)
    assert child.place is None
    (place,) = root.receive("c0", Register("c0", "child", life=2), 30)
    child.receive("root", place.message, 40)
    assert child.place is not None


@pytest.mark.parametrize("behind", [MINUTE, -MINUTE])
def test_events_that_are_all_refused_are_no_reason_to_wait(behind: int) -> None:
    """A device that gives the times by its own wrong clock stops no window."""
    sensor = entered(10 * MINUTE, 10 * MINUTE, idle=100, ahead=1_000)
    begin = 10 * MINUTE
    for now in range(begin, begin + 1_000, 10):
        assert sensor.emit([now - behind], [1.0], None, now)[0] == 1
    assert sensor.late + sensor.early == 100
    assert sensor.boundary == begin + 990 - 100
