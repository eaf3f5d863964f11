"""Sources number and keep, sinks filter, and both know who may speak."""

from __future__ import annotations

from holdfast.pipeline.machine.sharing import Claim, Guarantee, Plan, Sink, Source, TupleId
from holdfast.pipeline.machine.sharing.messages import (
    Announce,
    Announced,
    Confirm,
    Deliver,
    Missing,
    Packet,
    Request,
    Send,
    View,
)
from tests.pipeline.machine.sharing.rig import rules

PLAN = Plan.chain(source=1, a=2, sink=1)
FIRST = Claim(0, "a/0", 0)
X, Y = TupleId("source/0", 1), TupleId("source/0", 2)


def packet(*items: object, claim: Claim = FIRST, number: int = 1) -> Packet:
    return Packet(claim, 0, number, items)  # type: ignore[arg-type]


def test_a_source_keeps_a_tuple_until_it_may_be_dropped() -> None:
    source = Source("source/0", PLAN, rules())
    [send] = source.emit("v", 0)
    assert isinstance(send.message, Packet)
    assert send.message.items == (Deliver(X, "v", "source/0"),)
    assert source.mark == 0
    assert source.receive("a/1", packet(Confirm(0, (X,)), claim=Claim(0, "a/1", 0)), 0) == []
    assert len(source.kept) == 1
    source.receive("a/1", packet(Confirm(1, (X,)), claim=Claim(0, "a/1", 0)), 0)
    assert len(source.kept) == 0
    assert source.mark == 1


def test_a_source_without_room_says_so() -> None:
    source = Source("source/0", PLAN, rules(capacity=2))
    for number in range(2):
        assert source.has_room
        source.emit(number, 0)
    assert not source.has_room
    source.receive("a/0", packet(Confirm(1, (Y,))), 0)
    assert not source.has_room, "the first one holds it up"
    source.receive("a/0", packet(Confirm(1, (X,))), 0)
    assert source.has_room


def test_at_most_once_a_source_keeps_nothing() -> None:
    source = Source("source/0", PLAN, rules(Guarantee.AT_MOST_ONCE))
    source.emit("v", 0)
    assert len(source.kept) == 0


def test_a_source_gives_what_is_asked_for_if_it_has_it() -> None:
    source = Source("source/0", PLAN, rules())
    source.emit("v", 0)
    [send] = source.receive("a/0", packet(Request((X, Y))), 0)
    assert isinstance(send.message, Packet)
    assert send.message.items == (Deliver(X, "v", "source/0"), Missing((Y,)))


def test_a_source_sends_again_where_the_seat_is_now() -> None:
    source = Source("source/0", PLAN, rules())
    [send] = source.emit("v", 0)
    assert send.to == "a/1"
    claims = (Claim(0, "a/0", 0), Claim(1, "a/0", 0))
    told = source.receive("a/0", Announce(7, View("a", claims)), 0)
    assert told == [Send("a/0", Announced(7))]
    assert [each.to for each in source.wake(100_000)] == ["a/0"]


def test_the_ends_refuse_those_who_are_fenced() -> None:
    claims = (Claim(1, "a/1", 0), Claim(0, "a/1", 0))
    for end in (Source("source/0", PLAN, rules()), Sink("sink/0", PLAN, rules())):
        end.receive("a/1", View("a", claims), 0)
        late = end.receive("a/0", packet(Deliver(X, "v", "a/0")), 0)
        assert late == [Send("a/0", View("a", claims))]
    assert isinstance(end, Sink)
    assert end.refused == 1
    assert end.drain() == []


def test_a_sink_takes_a_tuple_once_and_confirms_it_always() -> None:
    for guarantee, times in ((Guarantee.EXACTLY_ONCE, 1), (Guarantee.AT_LEAST_ONCE, 2)):
        sink = Sink("sink/0", PLAN, rules(guarantee))
        for name in ("a/0", "a/1"):
            [send] = sink.receive(name, packet(Deliver(X, "v", name), claim=Claim(0, name, 0)), 0)
            assert isinstance(send.message, Packet)
            assert send.message.items == (Confirm(1, (X,)),)
        assert sink.drain() == [(X, "v")] * times
        assert sink.drain() == []


def test_a_sink_forgets_what_cannot_come_again() -> None:
    sink = Sink("sink/0", PLAN, rules())
    sink.receive("a/0", packet(Deliver(X, "v", "a/0")), 0)
    assert len(sink.table) == 1
    for name in ("a/0", "a/1"):
        sink.receive(name, Packet(Claim(0, name, 0), 0, 2, (), (("source/0", 1),)), 0)
    assert len(sink.table) == 0
    sink.receive("a/1", packet(Deliver(X, "v", "a/1"), claim=Claim(0, "a/1", 0)), 0)
    assert sink.drain() == [(X, "v")], "it still knows that it came"


def test_a_sink_lets_those_wait_who_are_far_ahead() -> None:
    sink = Sink("sink/0", PLAN, rules(capacity=4))
    far = TupleId("source/0", 9)
    [send] = sink.receive("a/0", packet(Deliver(far, "v", "a/0")), 0)
    assert isinstance(send.message, Packet)
    assert send.message.items == (Confirm(-1, (far,)),)
    assert sink.drain() == []


def test_strangers_are_not_heard() -> None:
    for end in (Source("source/0", PLAN, rules()), Sink("sink/0", PLAN, rules())):
        assert end.receive("nobody", packet(Deliver(X, "v", "nobody")), 0) == []
