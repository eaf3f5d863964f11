"""The root: groups, layers, sensors and queries that come later, several groups, intermediates."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from holdfast.edge.machine import Child, GroupPlan, Query, Root, RootOptions, Sensor
from holdfast.edge.machine.messages import (
    Adopted,
    PaneClosed,
    PanePartial,
    PaneTaken,
    Register,
    Registered,
    Retire,
    Roster,
    Send,
    StopSending,
)
from holdfast.edge.machine.root import RootMemory, recall, remember
from holdfast.errors import InvalidArgumentError
from tests.edge.machine.rig import CHILD, COUNT, SENSOR, Rig

SUM = Query("sum", "sum", 1_000, 1_000)


def _plan() -> GroupPlan:
    return GroupPlan("g", ("a", "b", "c"), (("i0", "i1"), ("j0",)))


def test_a_group_is_formed_when_the_last_node_of_its_plan_comes() -> None:
    root = Root("root", RootOptions(plan=(_plan(),), spread=2))
    for name in ("i1", "i0", "j0"):
        assert root.receive(name, Register(name, "intermediate", f"{name}:1"), 0) == []
    for name in ("b", "b", "c"):
        assert root.receive(name, Register(name, "child", f"{name}:1"), 0) == []
    assert root.awaited == {"g": ("a",)}
    sends = {send.to: send.message for send in root.receive("a", Register("a", "child"), 0)}
    assert set(sends) == {"a", "b", "c", "i0", "i1", "j0"}
    assert root.awaited == {}
    a, bottom, top = sends["a"], sends["i0"], sends["j0"]
    assert isinstance(a, Registered)
    assert a.members == ("a", "b", "c")
    assert [claim.node for claim in a.home] == ["a", "b", "c", "a", "b", "c"]
    assert (a.parents, a.below) == (("i0", "i1"), ())
    assert (bottom.parents, bottom.below) == (("j0",), ("a", "b", "c"))
    assert (top.parents, top.below) == (("root",), ("i0", "i1"))
    assert a.addresses["b"] == "b:1"
    assert root.receive("d", Register("d", "child"), 0) == [], "the plan does not name it"
    again = root.receive("a", Register("a", "child", life=2), 0)
    assert [send.to for send in again] == ["a"]


def test_a_group_is_formed_without_those_who_do_not_come() -> None:
    """Two children of three, and one intermediate of each layer, are enough after a while."""
    root = Root("root", RootOptions(plan=(_plan(),), replication=2, gather=1_000))
    for name in ("a", "b"):
        root.receive(name, Register(name, "child"), 100)
    assert root.due(100) is None, "no layer has anybody"
    root.receive("i1", Register("i1", "intermediate"), 150)
    assert root.receive("j0", Register("j0", "intermediate"), 200) == []
    assert root.awaited == {"g": ("c", "i0")}
    assert root.due(200) == 1_200
    assert root.wake(1_100) == []
    placed = {send.to: send.message for send in root.wake(1_200)}
    assert placed["a"].members == ("a", "b", "c")
    assert root.due(1_200) is None
    late = root.receive("c", Register("c", "child", "c:1"), 2_000)
    assert {send.to for send in late} == {"a", "b", "c", "i0", "i1", "j0"}, "its address is news"


def test_a_group_without_one_of_its_children_works_and_takes_it_in_later() -> None:
    rig = Rig(0, 0, [COUNT], plan=(GroupPlan("g1", ("c0", "c1", "c2")),), gather=500)
    for name in ("c0", "c1"):
        rig.parties[name] = Child(name, "root", CHILD)
    rig.step(until=lambda: bool(rig.root.groups))
    assert rig.now == 500
    rig.add_sensor("s0")
    rig.emit(range(900))
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [900]
    assert rig.windows[0].complete
    assert rig.windows[0].failed == ("c2",)
    rig.parties["c2"] = Child("c2", "root", CHILD, now=rig.now)
    rig.step(until=lambda: rig.child("c2").owned == (2,))


def test_a_sensor_that_joins_in_the_middle_of_a_window() -> None:
    """Digest §9.14: its events count from then on, and none before is waited for."""
    rig = Rig(2, 1, [COUNT])
    rig.emit(range(500))
    rig.add_sensor("s1", time=400)
    rig.emit(range(380, 600, 2), sensor="s1")
    assert rig.sensor("s1").late == 10
    rig.step(100)
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [600]
    assert rig.windows[0].late == 10


def test_a_pane_closed_without_a_sensor_is_refused() -> None:
    rig = Rig(2, 1, [COUNT])
    rig.emit(range(100))
    # The children do not hear of the new sensor.
    rig.lose = lambda sender, message, to: isinstance(message, Roster) and to == "c1"
    rig.add_sensor("s1")
    rig.emit(range(50), sensor="s1")
    rig.advance(1_000)
    rig.step(300)
    assert rig.windows == []
    rig.lose = lambda sender, message, to: False
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [150]


def test_a_silent_sensor_holds_the_windows_until_it_is_dismissed() -> None:
    rig = Rig(2, 2, [COUNT])
    rig.emit(range(100))
    rig.emit([5], sensor="s1")
    rig.kill("s1")
    rig.do("s0", rig.sensor().advance(3_500, rig.now))
    rig.step(500)
    assert rig.windows == []
    rig.do("root", rig.root.dismiss("s1", rig.now))
    rig.step(until=lambda: len(rig.windows) == 3)
    assert rig.answers() == [101, None, None]
    assert rig.root.dismiss("s1", rig.now) == []


def test_a_sensor_that_is_not_heard_is_named_until_it_is_back_or_dismissed() -> None:
    rig = Rig(2, 0, [COUNT], absence=1_000)
    options = replace(SENSOR, refresh=200)
    for name in ("s0", "s1"):
        rig.add_sensor(name, options)
    rig.step(3_000)
    assert rig.root.unheard(rig.now) == ()
    rig.kill("s1")
    rig.step(1_500)
    assert rig.root.unheard(rig.now) == ("s1",)
    again = Root("root", rig.root.options)
    again.register_query(COUNT, rig.now)
    recall(again, remember(rig.root), rig.now)
    assert again.unheard(rig.now) == (), "after a restart it is waited for once more"
    assert again.unheard(rig.now + 1_000) == ("s0", "s1")
    rig.do("root", rig.root.dismiss("s1", rig.now))
    assert rig.root.unheard(rig.now) == ()
    rig.kill("s0")
    rig.step(1_500)
    assert rig.root.unheard(rig.now) == ("s0",)
    rig.add_sensor("s0~2", options, rig.now)
    assert rig.root.unheard(rig.now) == ()


def test_a_child_that_reaches_all_but_the_root_is_named() -> None:
    """Its peers hear it, so nobody takes over."""
    rig = Rig(3, 1, [COUNT])
    rig.emit(range(0, 1_500, 10))
    rig.step(300)
    assert (len(rig.windows), rig.root.lacking) == (1, ())
    rig.lose = lambda sender, message, to: (sender, to) == ("c1", "root")
    rig.emit(range(1_500, 2_500, 10))
    rig.step(3_000)
    assert (len(rig.windows), rig.root.lacking) == (1, ("c1",))
    rig.lose = lambda *_: False
    rig.step(until=lambda: len(rig.windows) == 2)
    assert (rig.answers(), rig.root.lacking) == ([100, 100], ())


@pytest.mark.parametrize("intermediates", [0, 2])
def test_panes_that_wait_for_one_child_are_held_up_to_a_limit(intermediates: int) -> None:
    """The others stay with the children, and come when there is room."""
    rig = Rig(3, 1, [COUNT], intermediates=intermediates, most_held=20_000)
    rig.lose = lambda sender, message, to: sender == "c1" and to in ("root", "i0", "i1")
    for second in range(200):
        rig.emit(range(second * 1_000, (second + 1) * 1_000, 100))
        rig.step(20)
    rig.step(3_000)
    merge = rig.parties["i0"].merge if intermediates else rig.root.groups["g1"].merge
    assert rig.windows == []
    assert 20_000 < merge.weight < 22_000
    assert len(merge) < 40
    rig.lose = lambda *_: False
    rig.step(until=lambda: len(rig.windows) == 199)
    assert rig.answers() == [10] * 199
    assert merge.weight < 2_000


def test_a_window_without_events() -> None:
    rig = Rig(2, 1, [COUNT, SUM])
    rig.emit([5, 2_500])
    rig.advance(3_000)
    rig.step(until=lambda: len(rig.windows) == 6)
    assert rig.answers() == [1, None, 1]
    assert rig.answers("sum") == [1.0, None, 1.0]


@pytest.mark.parametrize(
    ("size", "slide"), [(1_000, 1_000), (1_000, 250), (700, 300), (300, 1_000), (900, 600)]
)
def test_windows_of_every_shape(size: int, slide: int) -> None:
    """Digest §9.13: sizes that are no multiple of the slide or the cut, slides beyond the size, and
    events on both edges."""
    query = Query("q", "count", size, slide)
    rig = Rig(2, 1, [query, COUNT])
    times = sorted([*range(0, 4_000, 7), 1_000, 2_000, 1_000 + size, 3_000])
    rig.emit(times)
    rig.step(130)
    rig.advance(4_000)
    rig.step(until=lambda: len(rig.windows) > 4)
    rig.step(300)
    windows = [window for window in rig.windows if window.query == "q"]
    assert [window.start for window in windows] == list(
        range(windows[0].start, windows[-1].start + 1, slide)
    )
    assert windows[0].start - slide + size <= 0 < windows[0].start + size + slide
    assert windows[-1].end + slide > 4_000
    for window in windows:
        inside = sum(window.start <= time < window.end for time in times)
        assert (window.answer or 0) == inside, (window.start, window.end)


def test_a_query_registered_while_running() -> None:
    rig = Rig(3, 1, [COUNT])
    rig.emit(range(0, 1_500))
    rig.step(150)
    rig.do("root", rig.root.register_query(Query("late", "count", 500, 500), rig.now))
    assert len(rig.messages(Adopted)) == 3
    rig.emit(range(1_500, 4_000))
    rig.step(150)
    rig.advance(4_000)
    rig.step(until=lambda: len(rig.answers()) == 4)
    late = [window for window in rig.windows if window.query == "late"]
    assert late[0].start == 1_500
    assert [window.answer for window in late] == [500] * 5
    assert all(window.complete for window in late)
    with pytest.raises(InvalidArgumentError, match="choose another id"):
        rig.root.register_query(Query("late", "count", 1, 1), rig.now)


def test_a_child_that_does_not_answer_does_not_hold_up_a_query() -> None:
    rig = Rig(3, 1, [COUNT], patience=500)
    rig.step(500)
    rig.kill("c1")
    rig.do("root", rig.root.register_query(Query("late", "count", 500, 500), rig.now))
    rig.step(1_500)
    rig.emit(range(0, 2_000))
    rig.advance(2_000)
    rig.step(until=lambda: len(rig.answers()) == 2)
    rig.step(300)
    assert rig.answers("late")[-1] == 500


@pytest.mark.parametrize("survivor", ["i0", "i1"])
def test_one_intermediate_of_each_layer_is_enough(survivor: str) -> None:
    """Digest §9.12, with two layers of which one has lost a member."""
    rig = Rig(2, 1, [COUNT, SUM], intermediates=3, layer=2)
    rig.step(1_000)
    rig.emit(range(300))
    (other,) = {"i0", "i1"} - {survivor}
    rig.kill(other)
    rig.step(1_000)
    assert rig.messages(StopSending, "c0")
    rig.advance(1_000)
    rig.step(until=lambda: len(rig.windows) == 2)
    assert rig.answers() == [300]
    rig.step(1_000)
    assert all(len(rig.child(name).outbox) == 0 for name in ("c0", "c1"))
    assert len(rig.parties[survivor].merge) == 0


def test_who_owns_what_is_known_behind_intermediates_too() -> None:
    rig = Rig(3, 1, [COUNT], intermediates=3, layer=2)
    rig.step(1_000)
    rig.emit(range(300))
    rig.kill("c1")
    rig.step(2_000)
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [300]
    (group,) = rig.root.groups.values()
    owned = {claim.partition: claim.node for claim in group.ownership.claims}
    assert owned == {p: name for name in ("c0", "c2") for p in rig.child(name).owned}
    assert sorted(owned) == [0, 1, 2]


def test_an_intermediate_that_took_a_pane_and_died() -> None:
    rig = Rig(2, 1, [COUNT], intermediates=1)
    rig.emit(range(300))
    rig.lose = lambda sender, message, to: sender == "i0" and to == "root"
    rig.advance(1_000)
    rig.step(100)
    dead = rig.kill("i0")
    rig.lose = lambda sender, message, to: False
    rig.parties["i0"] = type(dead)("i0", "root", dead.options, life=2, now=rig.now)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [300]


def test_one_group_or_three_come_to_the_same() -> None:
    """Digest §9.12."""
    answers = []
    for groups in (1, 3):
        size = 6 // groups
        plan = [
            GroupPlan(f"g{group}", tuple(f"c{group * size + at}" for at in range(size)))
            for group in range(groups)
        ]
        queries = [COUNT, Query("mean", "mean", 1_000, 1_000)]
        rig = Rig(6, 0, queries, plan=tuple(plan))
        assert len(rig.root.groups) == groups
        for number in range(3):
            children = list(rig.root.groups.values())[number % groups].members
            sensor = rig.parties[f"s{number}"] = Sensor(f"s{number}", children, SENSOR)
            rig.do(f"s{number}", sensor.join(0, rig.now))
            rig.step(until=lambda s=sensor: s.is_member)
            rig.emit(range(number, 900, 3), [float(number)] * 300, f"s{number}")
        rig.step(100)
        rig.advance(1_000)
        rig.step(until=lambda r=rig: len(r.windows) == 2)
        answers.append((rig.answers(), rig.answers("mean")))
    assert answers[0] == answers[1] == ([900], [1.0])


def test_duplicates_at_the_root_alter_nothing() -> None:
    rig = Rig(2, 1, [COUNT])
    rig.emit(range(100))
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    for message in rig.messages(PaneClosed):
        for _ in range(2):
            (answer,) = rig.root.receive("c0", message, rig.now)
            assert isinstance(answer.message, PaneTaken)
            assert answer.message.freed == 1_000
    assert rig.root.drain() == []


def test_a_state_of_nowhere_is_ignored() -> None:
    rig = Rig(2, 1, [COUNT])
    message = PaneClosed("g9", "count", 0, (PanePartial(0, 1, 0, 1),))
    assert rig.root.receive("c0", message, 0) == []
    unknown = replace(message, group="g1", query="no")
    assert rig.root.receive("c0", unknown, 0) == [Send("c0", Retire("g1", "no"))]
    assert rig.root.receive("x", Adopted("g1", "no", "x", 0), 0) == []
    assert rig.root.due(0) is None


def test_options_are_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="at least 1"):
        Root("root", RootOptions(replication=0))


@pytest.mark.parametrize("intermediates", [0, 2])
def test_a_removed_query_is_forgotten_by_all_even_by_one_that_was_not_told(
    intermediates: int,
) -> None:
    most = Query("most", "max", 1_000, 1_000)
    rig = Rig(queries=(COUNT, most), intermediates=intermediates)
    rig.emit([100, 200, 300])
    rig.step(100)
    rig.lose = lambda sender, message, to: isinstance(message, Retire) and sender == "root"
    rig.do("root", rig.root.remove_query("most"))
    rig.lose = lambda sender, message, to: False
    rig.advance(1_500)
    rig.step(until=lambda: bool(rig.windows))
    rig.step(1_000)
    assert rig.answers() == [3]
    assert rig.answers("most") == []
    for child in (rig.child(name) for name in ("c0", "c1", "c2")):
        assert list(child.slots.queries) == ["count"]
        assert all("most" not in slot.panes for slot in child.slots)
        assert len(child.outbox) == 0
    assert [query.id for query in remember(rig.root).queries] == ["count"]
    assert all(list(group.freed) == ["count"] for group in rig.root.groups.values())
    # The name is free, under another id, and another meaning.
    rig.do("root", rig.root.register_query(Query("most~2", "count", 1_000, 1_000), rig.now))
    rig.step(200)
    rig.emit([2_100, 2_200])
    rig.advance(4_500)
    rig.step(until=lambda: len(rig.answers()) > 3)
    assert rig.answers("most~2") == [None, 2, None]


def test_what_older_roots_wrote_down_is_read() -> None:
    """They knew neither lives of nodes, nor sensors that leave by their own word."""
    rig = Rig(2, 2)
    rig.emit(range(0, 1_500, 10))
    rig.emit(range(0, 1_500, 10), sensor="s1")
    rig.step(until=lambda: len(rig.windows) == 1)
    written = msgspec.to_builtins(remember(rig.root))
    del written["lives"]
    (group,) = written["groups"]
    del group["roster"]["through"]
    for sitting in group["roster"]["sittings"]:
        del sitting["said"]
    for windows in written["windows"].values():
        windows["totals"] = {name: counts[:2] for name, counts in windows["totals"].items()}
    again = Root("root", RootOptions(plan=rig.root.options.plan))
    recall(again, msgspec.convert(written, RootMemory), rig.now)
    assert remember(again) == replace(remember(rig.root), lives={})
    known = rig.child("c0").place
    (place,) = again.receive("c0", Register("c0", "child", life=7), rig.now + 1_000)
    assert known is not None
    assert isinstance(place.message, Registered)
    assert place.message.life > known.life
