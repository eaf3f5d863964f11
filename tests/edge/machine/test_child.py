"""A child: gaps, repetitions, cuts, what is safe, and what it holds."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from holdfast.edge.machine.closing import Closing
from holdfast.edge.machine.messages import (
    Ack,
    Beat,
    Events,
    Payload,
    Query,
    Resume,
    Roster,
    Safe,
    Sitting,
)
from holdfast.edge.machine.replay import Intake
from holdfast.edge.machine.slots import Slot, Slots
from tests.edge.machine.rig import CHILD, COUNT, SENSOR, Rig


def frame(first: int, count: int, boundary: int = 0) -> Events:
    times = np.arange(first, first + count)
    return Events("s", 0, 1, first, times, np.ones(count), boundary or first + count - 1)


def taking(guarantee: str, *frames: Events) -> tuple[Slot, list[bool]]:
    slots = Slots(Roster("g", 1, 0, (Sitting("s", 0),)))
    slots.adopt(COUNT)
    slot = slots.get(0, "s")
    intake = Intake(slots, Closing(slots), guarantee, 1_000)
    return slot, [intake.take(slot, each) for each in frames]


@pytest.mark.parametrize(
    ("guarantee", "frames", "count", "offset", "lost"),
    [
        ("exactly-once", [(1, 5), (6, 5)], 10, 10, 0),
        ("exactly-once", [(1, 5), (1, 5)], 5, 5, 0),
        ("exactly-once", [(1, 5), (3, 5)], 7, 7, 0),
        ("exactly-once", [(1, 5), (7, 5)], 5, 5, 0),
        ("at-least-once", [(1, 5), (1, 5)], 10, 5, 0),
        ("at-least-once", [(1, 5), (3, 5)], 10, 7, 0),
        ("at-least-once", [(1, 5), (7, 5)], 5, 5, 0),
        ("at-most-once", [(1, 5), (1, 5)], 5, 5, 0),
        ("at-most-once", [(1, 5), (7, 5)], 10, 11, 1),
        ("at-most-once", [(1, 5), (9, 2), (6, 3)], 7, 10, 3),
    ],
)
def test_by_guarantee(
    guarantee: str, frames: list[tuple[int, int]], count: int, offset: int, lost: int
) -> None:
    slot, _ = taking(guarantee, *(frame(*each) for each in frames))
    held = slot.panes["count"][0]
    assert (held.partial, slot.offset, slot.lost) == (count, offset, lost)


def test_the_boundary_of_events_that_do_not_follow_on_is_not_believed() -> None:
    slot, taken = taking("exactly-once", frame(1, 5), frame(7, 5, boundary=999))
    assert taken == [True, False]
    assert slot.boundary == 5


def test_a_gap_is_asked_for_once_and_again_after_a_while() -> None:
    rig = Rig(2, 1)
    rig.step(100)
    rig.lose = lambda sender, message, to: isinstance(message, Events) and len(message.times) > 0
    rig.emit(range(10))
    rig.lose = lambda sender, message, to: isinstance(message, Resume)
    rig.sent.clear()
    for time in range(10, 40, 2):
        rig.emit([time, time + 1])
    assert len(rig.messages(Resume)) == 2, "one for each partition"
    rig.step(130)
    assert len(rig.messages(Resume)) == 4
    rig.lose = lambda sender, message, to: False
    rig.step(200)
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [40]


def test_the_last_events_are_lost_and_nothing_follows() -> None:
    rig = Rig(2, 1)
    rig.lose = lambda sender, message, to: isinstance(message, Events) and len(message.times) > 0
    rig.emit(range(10))
    rig.lose = lambda sender, message, to: False
    rig.advance(1_000)
    rig.step(until=lambda: bool(rig.windows))
    assert rig.answers() == [10]


def test_peers_that_lack_the_same_get_the_same_payload() -> None:
    rig = Rig(4, 1)
    rig.emit(range(100))
    rig.sent.clear()
    rig.step(200)
    payloads = [m for sender, _, m in rig.sent if isinstance(m, Payload) and sender == "c0"]
    by_number = {number: [m for m in payloads if m.number == number] for number in (1, 2)}
    for same in by_number.values():
        assert len(same) == 3
        assert len({id(message) for message in same}) == 1, "so that it is encoded once"
    assert by_number[1][0].slots
    rig.step(2_000)
    rig.sent.clear()
    rig.step(200)
    later = [message for sender, _, message in rig.sent if isinstance(message, Payload)]
    assert later
    assert all(not delta.parts for message in later for delta in message.slots), "nothing changed"


def test_safe_is_what_all_living_peers_have() -> None:
    rig = Rig(3, 1, child=replace(CHILD, beat=replace(CHILD.beat, period=None)))
    rig.step(500)
    rig.lose = lambda sender, message, to: isinstance(message, Payload) and to == "c2"
    rig.emit(range(300))
    rig.step(500)
    assert not rig.messages(Safe), "all others lack the word of c2, and c2 lacks theirs"
    assert rig.sensor().buffered == 300
    rig.lose = lambda sender, message, to: False
    rig.step(500)
    assert rig.sensor().buffered == 0


def acknowledging(message: Payload, peer: str, ack: Ack) -> Payload:
    """The same payload, later, with an acknowledgement in it."""
    later = {"number": message.number + 1, "acks": {peer: ack}}
    return msgspec.structs.replace(message, **later)


@pytest.mark.parametrize(("life", "buffered"), [(0, 10), (1, 0), (2, 10)])
def test_only_the_present_life_can_be_acknowledged(life: int, buffered: int) -> None:
    rig = Rig(2, 1)
    rig.lose = lambda sender, message, to: isinstance(message, Payload)
    rig.emit(range(10))
    rig.step(300)
    assert rig.sensor().buffered == 10
    last = {sender: (to, m) for sender, to, m in rig.sent if isinstance(m, Payload)}
    for sender, (to, message) in last.items():
        word = acknowledging(message, to, Ack(life, last[to][1].number))
        rig.do(to, rig.child(to).receive(sender, word, rig.now))
    rig.step(200)
    assert rig.sensor().buffered == buffered


def test_a_payload_that_was_overtaken_acknowledges_nothing() -> None:
    rig = Rig(2, 1)
    rig.lose = lambda sender, message, to: isinstance(message, Payload)
    rig.emit(range(10))
    rig.step(300)
    last = {sender: (to, m) for sender, to, m in rig.sent if isinstance(m, Payload)}
    for sender, (to, message) in last.items():
        good = acknowledging(message, to, Ack(1, last[to][1].number))
        overtaken = acknowledging(message, to, Ack(1, 0))
        for word in (good, overtaken):
            rig.do(to, rig.child(to).receive(sender, word, rig.now))
    rig.step(200)
    assert rig.sensor().buffered == 0


def test_who_was_started_again_does_not_acknowledge_what_it_never_got() -> None:
    """Nothing has changed since what its former life got: the payload is empty, and not all."""
    rig = Rig(2, 1)
    rig.emit(range(100))
    rig.step(2_000)
    rig.kill("c1")
    again = rig.restart("c1")
    rig.step(10)
    assert again.place is not None
    before = Payload(50, 40, 1, (), ())
    rig.do("c1", again.receive("c0", before, rig.now))
    assert again.replication._received["c0"] == Ack(1, 0)
    rig.do("c1", again.receive("c0", Payload(51, 0, 1, (), ()), rig.now))
    assert again.replication._received["c0"] == Ack(1, 51)
    rig.do("c1", again.receive("c0", Payload(52, 51, 1, (), ()), rig.now))
    assert again.replication._received["c0"] == Ack(1, 52)


def test_payloads_are_beats_and_no_others_are_sent() -> None:
    rig = Rig(3, 1)
    rig.step(500)
    rig.sent.clear()
    rig.step(1_000)
    assert not rig.messages(Beat)
    assert len(rig.messages(Payload, "c0")) == 20
    dead = rig.kill("c2")
    rig.step(until=lambda: rig.child("c0").tenure.down == ("c2",))
    rig.sent.clear()
    rig.step(300)
    assert {to for _, to, m in rig.sent if isinstance(m, Beat)} == {dead.name}


def test_alone_only_what_the_root_has_is_safe() -> None:
    rig = Rig(1, 1)
    rig.emit(range(0, 900, 10))
    rig.step(300)
    assert rig.sensor().buffered == 90
    rig.emit(range(1_000, 1_500, 10))
    rig.step(300)
    assert rig.sensor().buffered == 50


def test_what_is_held_stays_small_over_many_windows() -> None:
    """Digest §9.18."""
    queries = [COUNT, Query("q", "sum", 3_000, 500)]
    rig = Rig(3, 2, queries, intermediates=2)
    for start in range(0, 60_000, 500):
        for sensor in ("s0", "s1"):
            rig.emit(range(start, start + 500, 25), sensor=sensor)
        rig.step(120)
    assert len(rig.answers()) >= 58
    for name in ("c0", "c1", "c2"):
        child = rig.child(name)
        assert child.slots.panes < 60
        assert len(child.outbox) < 10
        assert all(len(slot.marks) < 100 for slot in child.slots)
    assert rig.sensor().buffered < 100
    assert len(rig.root.groups["g1"].merge) < 10
    assert all(len(rig.parties[name].merge) < 10 for name in ("i0", "i1"))


def test_when_the_root_is_gone_events_stay_with_the_sensors() -> None:
    options = replace(SENSOR, capacity=200)
    rig = Rig(2, 1, child=replace(CHILD, most_panes=3), sensor=options)
    root = rig.kill("root")
    dealt = 0
    for start in range(0, 20_000, 100):
        dealt += rig.emit(range(start, start + 100, 10))
        rig.step(50)
    assert dealt < 2_000, "pushed back"
    assert all(rig.child(name).slots.panes < 20 for name in ("c0", "c1"))
    rig.parties["root"] = root
    rig.step(2_000)
    assert rig.answers()[:3] == [100, 100, 100]
