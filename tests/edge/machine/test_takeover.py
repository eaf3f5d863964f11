"""A child dies, or is only thought dead: nothing is lost, and nothing counted twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.edge.machine import SensorOptions
from holdfast.edge.machine.messages import (
    Events,
    Fenced,
    Leader,
    Message,
    NodeFailed,
    PaneClosed,
    Payload,
    Query,
    Resume,
    Send,
)
from tests.edge.machine.rig import CHILD, COUNT, SENSOR, Rig

SUCCESSIONS = ["bully", "ring", "spread"]
SUM = Query("sum", "sum", 1_000, 1_000)


def taken_over(rig: Rig, dead: str) -> bool:
    return all(
        dead not in rig.child(name).tenure.ownership.owner(partition)
        for name in rig.parties
        if name.startswith("c")
        for partition in rig.child(name).tenure.ownership.partitions
    )


def warmed(rig: Rig) -> Rig:
    """Beats for a while, so that detectors know what is usual."""
    rig.step(1_000)
    return rig


@pytest.mark.parametrize("way", SUCCESSIONS)
@pytest.mark.parametrize("victims", [1, 2, 3])
def test_up_to_all_but_one_die(way: str, victims: int) -> None:
    """Digest §9.6: the answer is that of a run in which nobody dies."""
    rig = warmed(Rig(4, 2, [COUNT, SUM], child=replace(CHILD, succession=way)))
    for sensor in ("s0", "s1"):
        rig.emit(range(0, 900, 3), [0.1] * 300, sensor)
    rig.step(150)
    for number in range(victims):
        rig.kill(f"c{number}")
    for sensor in ("s0", "s1"):
        rig.emit(range(900, 990, 3), [0.1] * 30, sensor)
    rig.step(until=lambda: taken_over(rig, "c0"))
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [660]
    assert rig.answers("sum") == [pytest.approx(66.0)]
    window = rig.windows[0]
    assert window.complete
    assert window.epoch > 1
    assert window.failed == tuple(f"c{number}" for number in range(victims))


def test_only_the_tail_is_replayed() -> None:
    """Digest §9.11: what was replicated at the last cut is not sent again."""
    rig = warmed(Rig(3, 1, sensor=replace(SENSOR, partitioner="primary")))
    rig.emit(range(600))
    rig.step(250)
    (owner,) = {m for _, m, e in rig.sent if isinstance(e, Events) and len(e.times)}
    rig.lose = lambda sender, message, to: isinstance(message, Payload) and sender == owner
    rig.emit(range(600, 640))
    rig.kill(owner)
    rig.sent.clear()
    rig.step(until=lambda: taken_over(rig, owner))
    rig.step(200)
    (request,) = {m.offset for m in rig.messages(Resume) if m.offset and m.partition}
    assert request == 600
    assert sum(len(m.times) for m in rig.messages(Events) if m.replayed) == 40
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [640]
    assert rig.windows[0].replayed == 40


def test_payloads_that_reached_some_only() -> None:
    """Digest §9.4 and 9.5: the taker is one that missed the first cut or the second."""
    for missed in ("c1", "c2"):
        for cut in (0, 1):
            rig = warmed(Rig(3, 1, [COUNT, SUM]))
            signs = [[5.0, 7.0, 1.0], [-4.0, -2.0, -1.0]]
            for number, values in enumerate(signs):
                rig.lose = lambda s, m, to, n=number, w=missed, c=cut: (
                    isinstance(m, Payload) and to == w and n == c
                )
                rig.emit([number * 10 + n for n in range(3)], values)
                rig.step(100)
            rig.kill("c0")
            rig.lose = lambda sender, message, to: False
            rig.step(until=lambda r=rig: taken_over(r, "c0"))
            rig.advance(1_000)
            rig.step(until=lambda r=rig: bool(r.windows))
            assert (rig.answers(), rig.answers("sum")) == ([6], [6.0])


@pytest.mark.parametrize("way", SUCCESSIONS)
def test_the_taker_dies_too(way: str) -> None:
    """Digest §9.7: cascade, at the moment of the take-over."""
    rig = warmed(Rig(4, 1, child=replace(CHILD, succession=way)))
    rig.emit(range(100))
    rig.step(120)
    takers: list[str] = []

    def lose(sender: str, message: Message, to: str) -> bool:
        if isinstance(message, Leader) and not takers:
            takers.append(sender)
        return bool(takers) and sender == takers[0]

    rig.lose = lose
    rig.kill("c0")
    rig.emit(range(100, 140))
    rig.step(until=lambda: bool(takers))
    rig.kill(takers[0])
    rig.step(until=lambda: taken_over(rig, "c0") and taken_over(rig, takers[0]))
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [140]


@pytest.mark.parametrize("way", SUCCESSIONS)
def test_every_partition_has_one_owner_after_many_detect(way: str) -> None:
    """Digest §9.7: all notice at once."""
    rig = warmed(Rig(4, 1, child=replace(CHILD, succession=way), spread=2))
    rig.kill("c1")
    rig.step(until=lambda: taken_over(rig, "c1"))
    rig.step(500)
    owned = [p for name in ("c0", "c2", "c3") for p in rig.child(name).owned]
    assert sorted(owned) == list(range(8))


def test_the_word_of_a_failure_is_not_said_again() -> None:
    rig = warmed(Rig(4, 1))
    rig.sent.clear()
    rig.kill("c1")
    rig.step(until=lambda: taken_over(rig, "c1"))
    rig.step(500)
    speakers = {sender for sender, _, message in rig.sent if isinstance(message, NodeFailed)}
    assert len(speakers) == 1


def test_false_suspicion_and_a_zombie() -> None:
    """Digest §9.8 and 9.9: frozen, taken over, then back with what it had; payloads come late."""
    rig = warmed(Rig(3, 1))
    rig.emit(range(300))
    rig.step(30)
    zombie = rig.kill("c0")
    rig.emit(range(300, 360))
    rig.step(until=lambda: taken_over(rig, "c0"))
    rig.emit(range(360, 400))
    rig.parties["c0"] = zombie
    rig.do("c0", zombie.wake(rig.now))
    rig.emit(range(400, 450))
    rig.step(300)
    assert zombie.owned == (), "it has learnt that it was taken over"
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [450]
    rig.step(1_500)
    assert zombie.owned == (0,), "and has its partition back"
    assert zombie.tenure.reinstatements == 1
    rig.emit(range(1_000, 1_100))
    rig.advance(2_000)
    rig.step(until=lambda: len(rig.windows) == 2)
    assert rig.answers() == [450, 100]


def test_a_zombie_is_fenced_by_the_sensors() -> None:
    rig = warmed(Rig(2, 1))
    zombie = rig.kill("c0")
    rig.step(until=lambda: rig.child("c1").owned == (0, 1))
    rig.parties["c0"] = zombie
    claim = zombie.tenure.own[0]
    rig.sent.clear()
    rig.do("c0", zombie.custody.take(claim, rig.now))
    assert rig.messages(Fenced, "c0")
    assert zombie.owned == ()


def test_a_sensor_that_missed_the_new_owner_is_told_by_the_old_one() -> None:
    rig = warmed(Rig(2, 1))
    zombie = rig.kill("c0")
    rig.lose = lambda sender, message, to: isinstance(message, Resume)
    rig.step(until=lambda: rig.child("c1").owned == (0, 1))
    rig.parties["c0"] = zombie
    rig.step(100)
    rig.emit(range(10))
    rig.emit(range(10, 20))
    assert rig.sensor().owners == {0: "c1", 1: "c1"}
    rig.lose = lambda sender, message, to: False
    rig.step(300)
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [20]


def test_restarted_and_reinstated() -> None:
    rig = warmed(Rig(3, 1))
    rig.emit(range(200))
    rig.step(120)
    rig.kill("c2")
    rig.emit(range(200, 300))
    rig.step(until=lambda: taken_over(rig, "c2"))
    again = rig.restart("c2")
    rig.step(until=lambda: again.place is not None and again.owned == (2,))
    rig.emit(range(300, 400))
    rig.step(200)
    for name in ("c0", "c1"):
        rig.kill(name)
    rig.step(until=lambda: again.owned == (0, 1, 2))
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [400], "what it holds after its restart is all there was"
    assert rig.windows[0].complete


def test_an_owner_that_has_forgotten_what_it_took_hears_it_from_the_others() -> None:
    """Behind intermediates the root does not know: it took over, and was started again."""
    rig = warmed(Rig(2, 1, intermediates=1))
    rig.emit(range(100))
    rig.step(300)
    zombie = rig.kill("c0")
    rig.step(until=lambda: rig.child("c1").owned == (0, 1))
    rig.step(500)
    claim = rig.kill("c1").tenure.own[0]
    rig.parties["c0"] = zombie
    rig.do("s0", [Send("c0", Fenced(claim.partition, claim.epoch, claim.node))])
    assert zombie.owned == ()
    again = rig.restart("c1")
    rig.step(2_000)
    assert sorted((*again.owned, *zombie.owned)) == [0, 1]
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [100]


@pytest.mark.parametrize(("capacity", "lost"), [(60, 40), (99, 1), (100, 0), (200, 0)])
def test_a_buffer_that_is_too_small(capacity: int, lost: int) -> None:
    """Digest §9.10: lost by the formula, said, and the window is not complete."""
    options = replace(SENSOR, capacity=capacity, on_full="drop", partitioner="primary")
    rig = warmed(Rig(2, 1, child=replace(CHILD, give_up=500), sensor=options))
    rig.emit([1])
    (owner,) = {to for _, to, e in rig.sent if isinstance(e, Events) and len(e.times)}
    rig.step(200)
    rig.kill(owner)
    rig.emit(range(2, 102))
    rig.step(until=lambda: taken_over(rig, owner))
    rig.step(1_500)
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    window = rig.windows[0]
    assert (window.answer, window.lost, window.missing) == (101 - lost, lost, lost)
    assert window.complete == (lost == 0)


def test_what_the_root_has_already_is_not_reported_as_lost() -> None:
    """The owner has closed a pane with events that nobody else has, and dies; its successor cannot
    have them any more, and need not. Those of the next pane are lost."""
    options = replace(SENSOR, capacity=50, on_full="drop", partitioner="primary")
    rig = warmed(Rig(2, 2, child=replace(CHILD, give_up=500), sensor=options))
    rig.emit([1])
    rig.emit([1], sensor="s1")
    rig.step(300)
    owner = next(
        to for s, to, e in rig.sent if s == "s0" and isinstance(e, Events) and len(e.times)
    )
    taker = "c1" if owner == "c0" else "c0"
    rig.lose = lambda sender, message, to: (
        (isinstance(message, Payload) and sender == owner) or (sender == "s1" and to == taker)
    )
    for start in range(2, 102, 25):
        rig.emit(range(start, start + 25))
    rig.advance(1_000)
    rig.step(60)
    assert rig.messages(PaneClosed), "the root has this partition of the first pane"
    assert not rig.windows, "and waits for the other"
    rig.kill(owner)
    rig.lose = lambda sender, message, to: False
    rig.emit(range(1_000, 1_120))
    rig.step(until=lambda: taken_over(rig, owner))
    rig.step(2_000)
    rig.advance(2_000)
    rig.step(until=lambda: len(rig.windows) == 2)
    first, second = rig.windows
    assert (first.answer, first.lost, first.missing, first.complete) == (102, 0, 0, True)
    assert (second.answer, second.lost, second.complete) == (50, 70, False)


def test_all_die_and_the_sensors_still_have_what_the_root_has_not() -> None:
    rig = warmed(Rig(1, 1))
    rig.emit(range(0, 2_500, 5))
    rig.step(300)
    assert rig.answers() == [200, 200]
    rig.kill("c0")
    rig.restart("c0")
    rig.step(500)
    rig.advance(3_000)
    rig.step(until=lambda: len(rig.windows) == 3)
    assert rig.answers() == [200, 200, 100]
    assert all(window.complete for window in rig.windows)


def test_at_most_once_counts_what_a_death_costs() -> None:
    rig = warmed(Rig(2, 1, guarantee="at-most-once", sensor=replace(SENSOR, partitioner="primary")))
    rig.emit(range(50))
    (owner,) = {to for _, to, e in rig.sent if isinstance(e, Events) and len(e.times)}
    rig.step(200)
    rig.kill(owner)
    rig.emit(range(50, 80))
    rig.step(until=lambda: taken_over(rig, owner))
    rig.emit(range(80, 100))
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    window = rig.windows[0]
    assert (window.answer, window.missing, window.complete) == (70, 30, False)


def test_at_least_once_counts_again_what_comes_again() -> None:
    rig = warmed(Rig(2, 1, guarantee="at-least-once", sensor=SensorOptions(pulse=50)))
    rig.emit(range(50))
    again = [(sender, to, m) for sender, to, m in rig.sent if isinstance(m, Events)]
    for sender, to, message in again:
        rig.parties[to].receive(sender, message, rig.now)
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [100]


@pytest.mark.parametrize("succession", ["spread", "ring", "bully"])
@pytest.mark.parametrize("children", [2, 3])
@pytest.mark.parametrize("one_way", [False, True])
def test_two_that_do_not_hear_each_other_do_not_fight(
    succession: Any, children: int, one_way: bool
) -> None:
    """Sensors and root hear both: each is told through the root that the other lives."""
    rig = Rig(children, 2, child=replace(CHILD, succession=succession))
    rig.step(1_000)

    def is_cut(sender: str, message: Message, to: str) -> bool:
        return {sender, to} == {"c0", "c1"} and not (one_way and to == "c0")

    rig.lose = is_cut
    count = 0
    for start in range(2_000, 12_000, 100):
        for sensor in ("s0", "s1"):
            count += rig.emit(range(start, start + 100, 10), sensor=sensor)
        rig.step(100)
    tenures = [rig.child(f"c{number}").tenure for number in range(children)]
    assert sum(tenure.takeovers for tenure in tenures) <= 2
    assert max(claim.epoch for tenure in tenures for claim in tenure.ownership.claims) <= 3
    rig.lose = lambda sender, message, to: False
    rig.step(2_000)
    rig.advance(13_000)
    rig.step(until=lambda: len(rig.windows) == 13)
    assert sum(answer or 0 for answer in rig.answers()) == count
    assert all(window.complete for window in rig.windows)
    rig.step(until=lambda: all(rig.child(f"c{n}").owned == (n,) for n in range(children)))


def test_one_that_dies_while_only_the_root_hears_it_is_taken_over() -> None:
    rig = Rig(2, 1)
    rig.step(1_000)
    rig.lose = lambda sender, message, to: {sender, to} == {"c0", "c1"}
    rig.step(2_000)
    assert rig.child("c0").tenure.down == ()
    rig.kill("c1")
    rig.step(until=lambda: rig.child("c0").owned == (0, 1))


@pytest.mark.parametrize("succession", ["spread", "ring", "bully"])
@pytest.mark.parametrize("children", [2, 3])
def test_two_that_only_the_sensors_hear_fight_ever_more_rarely(
    succession: Any, children: int
) -> None:
    """Nobody can tell either that the other lives, but by what it takes back."""
    rig = Rig(children, 2, child=replace(CHILD, succession=succession))
    rig.step(1_000)
    pair = {"c0", "c1"}
    rig.lose = lambda sender, message, to: (
        {sender, to} == pair or ("root" in (sender, to) and not pair.isdisjoint((sender, to)))
    )
    count = 0
    for start in range(2_000, 22_000, 100):
        for sensor in ("s0", "s1"):
            count += rig.emit(range(start, start + 100, 10), sensor=sensor)
        rig.step(100)
    tenures = [rig.child(f"c{number}").tenure for number in range(children)]
    assert max(claim.epoch for tenure in tenures for claim in tenure.ownership.claims) <= 10
    rig.lose = lambda sender, message, to: False
    rig.step(2_000)
    rig.advance(23_000)
    rig.step(until=lambda: len(rig.windows) == 23)
    assert sum(answer or 0 for answer in rig.answers()) == count
    assert all(window.complete for window in rig.windows)
    rig.step(until=lambda: all(rig.child(f"c{n}").owned == (n,) for n in range(children)))


def test_what_the_only_one_left_has_missed_is_said() -> None:
    """It lived throughout, but was held for dead when the others had the events, and got no copy:
    the limit of exactly once that the documentation names."""
    sensor = replace(SENSOR, refresh=300)
    rig = Rig(3, 1, child=replace(CHILD, give_up=1_000), sensor=sensor)
    rig.step(500)
    rig.emit(range(1_000, 1_200, 10))
    rig.step(500)
    rig.lose = lambda sender, message, to: "c0" in (sender, to)
    rig.step(until=lambda: "c0" in rig.child("c1").tenure.down)
    rig.step(until=lambda: "c0" in rig.child("c2").tenure.down)
    rig.emit(range(1_200, 1_700, 10))
    rig.step(until=lambda: rig.sensor("s0").buffered == 0)
    rig.kill("c1")
    rig.kill("c2")
    rig.lose = lambda sender, message, to: False
    rig.step(until=lambda: rig.child("c0").owned == (0, 1, 2))
    rig.emit(range(1_700, 3_100, 10))
    rig.step(until=lambda: len(rig.windows) == 3)
    first, short, whole = rig.windows
    assert (first.complete, whole.complete, whole.answer) == (True, True, 100)
    assert not short.complete
    assert (short.answer or 0) + short.missing == 100
    assert sum(window.lost for window in rig.windows) == 100 - (short.answer or 0) == 50
