"""Memory of a replica while one of its inputs is away for days."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from holdfast.pipeline.gates.order import Delays
from holdfast.pipeline.machine.messages import Heartbeat, Subscribe
from holdfast.pipeline.machine.node import Node
from holdfast.pipeline.machine.output_log import AT_ONCE
from holdfast.pipeline.machine.tuples import ROW
from simulator.parties.shelf import MemoryShelf
from tests.pipeline.machine.node_rig import SIZE, Rig, S

ROOM = 200 * ROW
DAY = 8_640 * SIZE
"""A bucket stands for ten seconds."""
PER_LOOK = 60 * SIZE


def size_of(root: Any, without: Any) -> int:
    """Bytes of all that can be reached from there, but not through another."""
    seen = {id(without)}
    found: list[Any] = [root]
    total = 0
    while found:
        each = found.pop()
        if id(each) in seen or isinstance(
            each, type | ModuleType | FunctionType | BuiltinFunctionType | MethodType
        ):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        found += gc.get_referents(each)
    return total


def rig_of(**settings: Any) -> Rig:
    return Rig(heartbeat=50 * SIZE, most=64, **settings)


def stay_away(rig: Rig, streams: Iterable[str], until: int, shelf: Any = None) -> list[int]:
    """Publish these streams only; the size of the node every few hours, without its shelf."""
    sizes = []
    for end in range(rig.now // SIZE * SIZE + PER_LOOK, until + 1, PER_LOOK):
        rig.advance(end)
        for stream in streams:
            rig.publish(stream, end)
        if end % (24 * PER_LOOK) < PER_LOOK:
            sizes.append(size_of(rig.node, shelf))
    return sizes


def held(node: Node) -> int:
    return sum(node.gate.held(stream) for stream in node.gate.streams)


def test_a_replica_stays_as_large_as_it_is_while_an_input_is_away_for_days() -> None:
    rig = rig_of(delays=Delays(), room=ROOM)
    rig.run(20 * SIZE)
    sizes = stay_away(rig, ["a"], 2 * DAY)
    assert held(rig.node) <= ROOM + AT_ONCE * ROW
    assert max(sizes[1:]) <= 1.05 * min(sizes[1:])
    until = rig.now // SIZE * SIZE
    rig.publish("b", until)
    rig.advance(rig.now + 20 * 50 * SIZE)
    assert rig.node.state is S
    rig.check(until)


def test_the_other_inputs_are_read_and_beats_go_on_while_one_is_paused() -> None:
    rig = rig_of(
        delays=Delays(),
        room=ROOM,
        inputs={"a": ("x", "y"), "b": ("z",), "c": ("w",)},
    )
    stay_away(rig, ["a"], DAY // 4)
    assert rig.node.inputs.intakes["a"].is_paused
    assert not rig.node.inputs.intakes["b"].is_paused
    beats = len(rig.sent(Heartbeat))
    stay_away(rig, ["a", "b"], DAY // 2)
    assert rig.node.inputs.intakes["b"].is_paused
    assert len(rig.sent(Heartbeat)) > beats
    assert held(rig.node) <= 2 * (ROOM + AT_ONCE * ROW)
    until = rig.now // SIZE * SIZE
    rig.publish("c", until)
    rig.advance(rig.now + 1000 * SIZE)
    assert rig.node.gate.base * SIZE == until


def test_a_bucket_larger_than_the_room_goes_through() -> None:
    rig = rig_of(delays=Delays(), room=1)
    for end in range(SIZE, 50 * SIZE, SIZE):
        rig.publish("a", end)
        rig.publish("b", end)
        rig.advance(end)
    rig.advance(100 * SIZE)
    rig.check(49 * SIZE)


def test_an_input_that_is_paused_does_not_ask_for_anything() -> None:
    rig = rig_of(delays=Delays(), room=ROOM)
    stay_away(rig, ["a"], DAY // 12)
    asked = len(rig.sent(Subscribe))
    stay_away(rig, ["a"], DAY // 6)
    assert len(rig.sent(Subscribe)) == asked


def test_with_previews_a_replica_stays_as_large_and_goes_on_answering() -> None:
    shelf = MemoryShelf()
    rig = rig_of(delays=Delays(100 * SIZE), room=ROOM, shelf=shelf)
    rig.run(20 * SIZE)
    sizes = stay_away(rig, ["a"], 2 * DAY, shelf)
    assert held(rig.node) <= 9 / 8 * ROOM + 4 * ROW
    # What says which buckets are on a page; here it has 26 of them, in the shell a thousand.
    assert len(shelf.pages) > 600
    assert max(sizes[1:]) <= 1.05 * min(sizes[1:]) + 300 * len(shelf.pages)
    until = rig.now // SIZE * SIZE
    assert rig.node.lines["o"].previewed > until - 2 * PER_LOOK
    rig.publish("b", until)
    rig.advance(rig.now + 20 * 50 * SIZE)
    assert rig.node.state is S
    rig.check(until)
    assert not shelf.pages


def test_a_stage_that_is_started_again_shows_previews_of_what_lies_on_the_shelf() -> None:
    rig = rig_of(delays=Delays(100 * SIZE), room=ROOM, shelf=MemoryShelf())
    rig.run(20 * SIZE)
    stay_away(rig, ["a"], DAY // 8)
    before = rig.node.gate.fork
    rig.do(rig.node.restarted(rig.node.gate.base, rig.now))
    assert rig.node.gate.fork == before
    until = rig.now // SIZE * SIZE
    rig.publish("b", until)
    rig.advance(rig.now + 20 * 50 * SIZE)
    rig.check(until)
