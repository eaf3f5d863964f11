"""Guarantees between a source and a sink when a test decides what arrives."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from holdfast.pipeline.machine.sharing import (
    Guarantee,
    Message,
    Routing,
    TupleId,
    at_random,
    by_key,
    primary,
    round_robin,
)
from holdfast.pipeline.machine.sharing.messages import Confirm, Deliver, Packet, Purge, Record, View
from holdfast.pipeline.machine.sharing.work import Phase
from tests.pipeline.machine.sharing.rig import Rig, rules

RELIABLE = [Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE]


def has(message: Message, kind: type) -> bool:
    return isinstance(message, Packet) and any(isinstance(item, kind) for item in message.items)


@pytest.mark.parametrize("guarantee", Guarantee)
@pytest.mark.parametrize(
    "routing", [round_robin, by_key(lambda value: value % 7), at_random(Random(1)), primary]
)
def test_without_faults_every_tuple_comes_once(guarantee: Guarantee, routing: Routing) -> None:
    rig = Rig(rules(guarantee), routing=routing)
    rig.emit(40)
    rig.run()
    assert rig.once(40)
    for replica in rig.replicas.values():
        assert not replica.desk.is_busy
        assert len(replica.desk.table) == 0, "all is forgotten"


def test_work_is_shared_and_not_done_by_all() -> None:
    done: list[Any] = []
    rig = Rig(rules(), process=lambda value: [done.append(value) or value], a=3)
    rig.emit(30)
    assert len(done) == 30
    givers = {sender for sender, to, message in rig.log if to == "sink/0" and has(message, Deliver)}
    assert givers == {"a/0", "a/1", "a/2"}


def test_at_most_once_has_no_tables_and_says_nothing_twice() -> None:
    rig = Rig(rules(Guarantee.AT_MOST_ONCE))
    rig.lose = lambda sender, to, message: to == "a/1" and has(message, Deliver)
    rig.emit(9)
    rig.run()
    assert len(rig.got) == 6
    assert not [each for each in rig.log if has(each[2], Record) or has(each[2], Confirm)]


@pytest.mark.parametrize("guarantee", RELIABLE)
@pytest.mark.parametrize("kind", [Deliver, Record, Confirm, Purge])
def test_a_lost_word_is_said_again(guarantee: Guarantee, kind: type) -> None:
    rig = Rig(rules(guarantee))
    random = Random(1)
    rig.lose = lambda sender, to, message: has(message, kind) and random.random() < 0.5
    rig.emit(20)
    rig.run(200)
    assert set(rig.got) == {TupleId("source/0", at + 1) for at in range(20)}
    assert guarantee is Guarantee.AT_LEAST_ONCE or rig.once(20)


@pytest.mark.parametrize("guarantee", Guarantee)
def test_packets_that_come_twice(guarantee: Guarantee) -> None:
    rig = Rig(rules(guarantee))
    rig.emit(6)
    for sender, to, message in list(rig.log):
        rig._queue.append((sender, to, message))
    rig.carry()
    rig.run()
    assert set(rig.got) == {TupleId("source/0", at + 1) for at in range(6)}
    assert guarantee is Guarantee.AT_LEAST_ONCE or rig.once(6)


def test_a_tuple_that_is_known_to_a_colleague_is_not_processed_again() -> None:
    done: list[Any] = []
    rig = Rig(rules(), process=lambda value: [done.append(value) or value], a=3)
    rig.lose = lambda sender, to, message: to == "sink/0"
    rig.emit()
    [holder] = {each.replica for each in rig["a/0"].desk.table.pending.values()}
    other = next(name for name in rig.replicas if name != holder)
    packet = next(message for _, to, message in rig.log if has(message, Deliver))
    rig.say("source/0", [])
    rig._queue.append(("source/0", other, packet))
    rig.carry()
    assert done == [1]
    rig.lose = lambda sender, to, message: False
    rig.run()
    assert rig.once(1)


@pytest.mark.parametrize("guarantee", RELIABLE)
def test_a_taker_finishes_what_the_dead_had_in_hand(guarantee: Guarantee) -> None:
    rig = Rig(rules(guarantee))
    rig.lose = lambda sender, to, message: sender == "a/1" and has(message, Deliver)
    rig.emit(9)
    assert len(rig.got) == 6
    rig.kill("a/1")
    rig.run()
    assert rig.once(9)
    assert sum(each.desk.lost for each in rig.replicas.values()) == 0


@pytest.mark.parametrize("guarantee", RELIABLE)
def test_a_confirmation_in_flight_when_its_sender_is_taken_over_from(guarantee: Guarantee) -> None:
    """Step 8 was on its way: the source learns from the taker that the tuple is done."""
    rig = Rig(rules(guarantee))
    rig.lose = lambda sender, to, message: sender == "a/1" and to == "source/0"
    rig.emit(3)
    assert len(rig.source.kept) == 1
    rig.kill("a/1")
    rig.run(100)
    assert len(rig.source.kept) == 0
    assert set(rig.got) == {TupleId("source/0", at + 1) for at in range(3)}
    assert guarantee is Guarantee.AT_LEAST_ONCE or rig.once(3)


def test_what_a_fenced_replica_sends_late_is_refused_and_it_learns_why() -> None:
    rig = Rig(rules())
    rig.freeze("a/1")
    rig.run()
    frozen = rig.thaw("a/1")
    late, work = TupleId("source/0", 99), frozen.desk.work
    work.accept(late, "late", ["source/0"], rig.now)
    for colleague in ("a/0", "a/2"):
        work.answered(colleague, late, Phase.RECORDING, rig.now)
    refused = rig["b/0"].refused
    rig.say("a/1", frozen.desk.flush())
    rig.carry()
    assert rig["b/0"].refused == refused + 1
    assert not rig.got
    assert ("b/0", "a/1") in {(s, to) for s, to, message in rig.log if isinstance(message, View)}
    assert not frozen.members.is_active


@pytest.mark.parametrize("guarantee", RELIABLE)
def test_back_in_the_middle_of_traffic(guarantee: Guarantee) -> None:
    rig = Rig(rules(guarantee))
    rig.kill("a/1")
    for _ in range(30):
        rig.emit(2)
        rig.run(1)
    rig.restart("a/1")
    for _ in range(30):
        rig.emit(2, carry=False)
        rig.run(1)
    rig.run()
    assert set(rig.got) == {TupleId("source/0", at + 1) for at in range(120)}
    assert guarantee is Guarantee.AT_LEAST_ONCE or rig.once(120)
    assert rig.holders("a", "source/0") == ["a/0", "a/1", "a/2"]


def test_back_while_records_of_its_former_life_are_pending() -> None:
    """Nobody had noticed that it was gone."""
    rig = Rig(rules())
    rig.lose = lambda sender, to, message: sender == "a/1" and has(message, Deliver)
    rig.emit(3)
    assert len(rig["a/0"].desk.table.pending) == 1
    rig.kill("a/1")
    rig.restart("a/1")
    rig.lose = lambda sender, to, message: False
    rig.run(5)
    assert rig.once(3)
    assert rig["a/1"].members.is_active


def test_two_in_a_row_that_die_together_cost_a_tuple_and_it_is_told() -> None:
    """`a` has passed it on and forgotten, `b` had it in hand: only these two had it."""
    rig = Rig(rules())
    rig.lose = lambda sender, to, message: to == "sink/0" and has(message, Deliver)
    rig.emit(1)
    giver = next(s for s, to, m in rig.log if to.startswith("b") and has(m, Deliver))
    taker = next(to for s, to, m in rig.log if to.startswith("b") and has(m, Deliver))
    rig.kill(giver)
    rig.kill(taker)
    rig.lose = lambda sender, to, message: False
    rig.run(200)
    assert not rig.got
    assert sum(each.desk.lost for each in rig.replicas.values()) == 1
    rig.emit(9)
    rig.run()
    assert len(rig.got) == 9, "it goes on"
    assert all(len(each.desk.table) == 0 for each in rig.replicas.values())


def test_with_two_hops_two_in_a_row_may_die_together() -> None:
    rig = Rig(rules(hops=2))
    rig.lose = lambda sender, to, message: to == "sink/0" and has(message, Deliver)
    rig.emit(1)
    giver = next(s for s, to, m in rig.log if to.startswith("b") and has(m, Deliver))
    taker = next(to for s, to, m in rig.log if to.startswith("b") and has(m, Deliver))
    rig.kill(giver)
    rig.kill(taker)
    rig.lose = lambda sender, to, message: False
    rig.run(200)
    assert rig.once(1)


def test_all_replicas_of_an_operator_die_and_with_two_hops_nothing_is_lost() -> None:
    rig = Rig(rules(hops=2))
    rig.lose = lambda sender, to, message: to == "sink/0" and has(message, Deliver)
    rig.emit(6)
    for name in ("b/0", "b/1", "b/2"):
        rig.kill(name)
        rig.restart(name)
    rig.lose = lambda sender, to, message: False
    rig.run(300)
    assert rig.once(6)


def test_the_tables_are_bounded_while_the_sink_stands_still() -> None:
    rig = Rig(rules(capacity=10))
    rig.lose = lambda sender, to, message: to == "sink/0"
    for _ in range(100):
        if rig.source.has_room:
            rig.emit()
        rig.run(1)
    assert rig.source.sent < 60
    for replica in rig.replicas.values():
        assert len(replica.desk.table) <= 2 * 10
        assert replica.desk.work.load <= 2 * 10
    rig.lose = lambda sender, to, message: False
    rig.run(200)
    assert rig.once(rig.source.sent)


def test_forged_numbers_are_not_remembered() -> None:
    rig = Rig(rules(capacity=10))
    claim = rig["a/1"].members.claim
    random = Random(1)
    for number in range(1, 2000):
        ids = tuple(TupleId("source/0", random.randrange(10**12)) for _ in range(3))
        rig["a/0"].receive("a/1", Packet(claim, 0, number, (Record(ids),)), 0)
    assert len(rig["a/0"].desk.table) <= 20


@pytest.mark.parametrize("guarantee", Guarantee)
def test_gathering_changes_only_the_number_of_packets(guarantee: Guarantee) -> None:
    counts = []
    for linger in (0, 10_000):
        rig = Rig(rules(guarantee, linger=linger))
        rig.emit(50)
        rig.run(100)
        assert set(rig.got) == {TupleId("source/0", at + 1) for at in range(50)}
        counts.append(sum(isinstance(message, Packet) for _, _, message in rig.log))
    assert counts[1] < counts[0] / 2
