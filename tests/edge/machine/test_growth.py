"""Children that join a formed group, and sensors that come back under their names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.edge.machine import Child, GroupPlan, Root, RootOptions, Sensor
from holdfast.edge.machine.formation import Group, life_of, name_of
from holdfast.edge.machine.messages import Register, Registered, Roster, SensorHello
from holdfast.edge.machine.root import recall, remember
from holdfast.edge.machine.sensor import incarnation
from holdfast.groups import Claim
from tests.edge.machine.rig import CHILD, SENSOR, Rig


def joining(rig: Rig, name: str) -> Child:
    child = Child(name, "root", rig.options, life=rig.now + 1, group="g1", now=rig.now)
    rig.parties[name] = child
    return child


def group(members: int, spread: int) -> Group:
    names = tuple(f"c{n}" for n in range(members))
    home = tuple(Claim(at, 1, names[at % members]) for at in range(members * spread))
    return Group("g1", names, [], home, Roster("g1", 0, 0, ()))


@pytest.mark.parametrize(
    ("members", "spread", "joiners", "shares"),
    [(3, 2, 1, [1, 2, 2, 1]), (3, 1, 1, [1, 1, 1, 0]), (2, 4, 2, [2, 2, 2, 2]), (1, 2, 1, [1, 1])],
)
def test_who_joins_gets_a_share_from_those_who_have_most(
    members: int, spread: int, joiners: int, shares: list[int]
) -> None:
    formed = group(members, spread)
    for number in range(joiners):
        for _ in range(2):
            formed.admit(f"c{members + number}")
    homes = list(formed.homes.values())
    assert [homes.count(f"c{number}") for number in range(members + joiners)] == shares
    assert {claim.epoch for claim in formed.ownership.claims} == {1}, "nobody owns it yet"


def test_a_child_joins_takes_its_share_and_stands_in_for_all() -> None:
    rig = Rig(2, 1, spread=2)
    rig.emit(range(200))
    rig.step(500)
    child = joining(rig, "c2")
    rig.step(until=lambda: child.place is not None and len(child.owned) == 1)
    assert rig.sensor().owners[child.owned[0]] == "c2"
    rig.emit(range(200, 400))
    rig.step(300)
    for name in ("c0", "c1"):
        rig.kill(name)
    rig.emit(range(400, 500))
    rig.step(until=lambda: child.owned == (0, 1, 2, 3))
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [500]
    assert rig.windows[0].complete


def test_those_who_were_not_told_ask_the_root_who_it_is() -> None:
    rig = Rig(3, 1, spread=2)
    rig.step(300)
    rig.lose = lambda sender, message, to: isinstance(message, Registered) and to != "c3"
    child = joining(rig, "c3")
    rig.step(400)
    assert child.place is not None
    assert not rig.child("c0").tenure.presence.members.knows("c3")
    rig.lose = lambda sender, message, to: False
    rig.step(1_000)
    for name in ("c0", "c1", "c2"):
        assert rig.child(name).tenure.presence.members.is_live("c3")
    assert len(rig.messages(Register)) < 20, "not with every beat"


def test_intermediates_hear_of_it_too() -> None:
    rig = Rig(2, 1, intermediates=2)
    rig.step(300)
    joining(rig, "c2")
    rig.step(200)
    assert [rig.parties[name].place.below for name in ("i0", "i1")] == [("c0", "c1", "c2")] * 2


def test_a_root_that_is_started_again_knows_who_has_joined() -> None:
    rig = Rig(2, 1, spread=2)
    rig.step(300)
    child = joining(rig, "c2")
    rig.step(until=lambda: child.place is not None and len(child.owned) == 1)
    again = Root("root", RootOptions(spread=2))
    recall(again, remember(rig.root), rig.now)
    assert again.groups["g1"].members == ("c0", "c1", "c2")
    assert again.groups["g1"].homes == rig.root.groups["g1"].homes


@pytest.mark.parametrize(
    ("sensor", "name", "life"), [("s", "s", 0), ("s~7", "s", 7), ("s~x", "s", 0), ("~", "", 0)]
)
def test_names_and_lives(sensor: str, name: str, life: int) -> None:
    assert (name_of(sensor), life_of(sensor)) == (name, life)


def test_a_sensor_comes_back_and_every_event_counts_once() -> None:
    rig = Rig(3, 0)
    rig.add_sensor(incarnation("s", 1))
    rig.emit(range(300), sensor="s~1")
    rig.step(100)
    rig.kill("s~1")
    rig.step(400)
    assert not rig.windows, "all wait for it"
    rig.add_sensor(incarnation("s", 2), time=700)
    rig.emit(range(700, 1_100), sensor="s~2")
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [600]
    assert not rig.windows[0].complete, "nobody knows what it had between 299 and 700"
    rig.advance(2_000)
    rig.step(until=lambda: len(rig.windows) == 2)
    assert rig.answers() == [600, 100]
    assert rig.windows[1].complete
    assert [each.sensor for each in rig.root.groups["g1"].present] == ["s~2"]


def test_of_two_of_one_name_the_later_one_takes_part() -> None:
    rig = Rig(2, 0)
    rig.add_sensor("s~5")
    for earlier in ("s~3", "s"):
        rig.do("c0", rig.root.receive("c0", SensorHello(earlier, 0), rig.now))
    assert [each.sensor for each in rig.root.groups["g1"].present] == ["s~5"]
    rig.do("root", rig.root.dismiss("s", rig.now))
    assert rig.root.groups["g1"].present == []


def test_last_words_on_their_way_are_waited_for() -> None:
    """The new one is heard of before the last events of the old one."""
    rig = Rig(2, 0)
    rig.add_sensor("s~1")
    rig.emit(range(100), sensor="s~1")
    dealt, last = rig.sensor("s~1").emit(range(100, 200), [1.0] * 100, None, rig.now)
    assert dealt == 100
    rig.kill("s~1")
    rig.add_sensor("s~2", time=300)
    rig.emit(range(300, 1_100), sensor="s~2")
    rig.step(40)
    assert not rig.windows
    rig.do("s~1", last)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [900]


def test_a_sensor_that_goes_with_its_child_does_not_hold_windows_for_ever() -> None:
    """Its last words died with the child: what is there is told, and that it may not be all."""
    rig = Rig(2, 1, sensor=replace(SENSOR, partitioner="primary"))
    rig.add_sensor("t")
    rig.step(1_000)
    rig.emit(range(500))
    rig.emit([10], sensor="t")
    rig.step(300)
    rig.advance(600)
    rig.step(60)
    rig.kill("t")
    rig.kill("c0")
    rig.step(until=lambda: rig.child("c1").owned == (0, 1))
    rig.do("root", rig.root.dismiss("t", rig.now))
    rig.emit(range(1_000, 1_010))
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [501]


def test_a_group_that_all_sensors_have_left_goes_on_with_the_others() -> None:
    plan = (GroupPlan("g1", ("c0", "c1")), GroupPlan("g2", ("c2", "c3")))
    rig = Rig(2, 1, plan=plan)
    for name in ("c2", "c3"):
        rig.parties[name] = Child(name, "root", rig.options, now=rig.now)
    rig.step(100)
    other = rig.parties["t"] = Sensor("t", ["c2", "c3"], SENSOR)
    rig.do("t", other.join(0, rig.now))
    rig.step(until=lambda: other.is_member)
    rig.emit(range(0, 1_000, 10))
    rig.emit(range(0, 1_500, 10), sensor="t")
    rig.kill("t")
    rig.do("root", rig.root.dismiss("t", rig.now))
    for start in range(1_000, 6_000, 500):
        rig.emit(range(start, start + 500, 10))
        rig.step(200)
    assert rig.answers()[:4] == [200, 150, 100, 100], (
        "what it said is counted, and no more waited for"
    )
    assert len(rig.answers()) >= 4


def test_sensors_that_left_long_ago_are_forgotten() -> None:
    rig = Rig(2, 1)
    hour = 3_600_000_000
    roster = rig.root.groups["g1"]
    for life in range(1, 6):
        rig.add_sensor(f"t~{life}", time=(life - 1) * hour)
        rig.advance(life * hour)
        roster.freed = dict.fromkeys(roster.freed, life * hour)
    assert len(roster.roster.sittings) <= 3
    assert len(roster._joins) <= 3
    rig.step(100)
    sensors = {slot.sensor for slot in rig.child("c0").slots}
    assert sensors <= {each.sensor for each in roster.roster.sittings}


def test_a_sensor_hears_of_owners_though_nobody_tells_it() -> None:
    """It asks now and then: in processes one that has joined cannot call a sensor."""
    rig = Rig(2, 1, sensor=replace(SENSOR, refresh=300), child=replace(CHILD, rejoin=10_000))
    rig.step(500)
    claim = Claim(0, 9, "c1")
    for name in ("c0", "c1"):
        rig.child(name).tenure.ownership.offer(claim)
    rig.step(400)
    assert rig.sensor().owners[0] == "c1"
