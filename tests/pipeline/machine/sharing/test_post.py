"""Packets gather what is for one, and are known when they come again."""

from __future__ import annotations

from holdfast.pipeline.machine.sharing import Claim, TupleId
from holdfast.pipeline.machine.sharing.batching import REMEMBERED, Post, Repeats
from holdfast.pipeline.machine.sharing.messages import Confirm, Deliver, Packet, Record

CLAIM = Claim(0, "a/0", 0)
LIVES = {"a/1": 0, "b/0": 7}


def make() -> Post:
    return Post(LIVES.get)


def of(number: int) -> TupleId:
    return TupleId("s", number)


def test_what_is_for_one_goes_in_one_packet() -> None:
    post = make()
    post.note("a/1", Record, of(1))
    post.note("a/1", Record, of(2))
    post.note("a/1", Record, of(1))
    post.confirm("b/0", of(1), 0)
    post.deliver("b/0", of(3), "x", "a/0")
    records, others = post.flush(CLAIM, {})
    assert records.to == "a/1"
    assert records.message == Packet(CLAIM, 0, 1, (Record((of(1), of(2))),))
    assert isinstance(others.message, Packet)
    assert others.message.to == 7, "the life it is for"
    assert others.message.items == (Deliver(of(3), "x", "a/0"), Confirm(0, (of(1),)))
    assert post.is_empty
    assert post.flush(CLAIM, {}) == []


def test_nothing_goes_to_one_who_is_not_there() -> None:
    post = make()
    post.deliver("b/1", of(1), "x", "a/0")
    assert post.flush(CLAIM, {}) == []
    assert post.is_empty


def test_packets_are_numbered() -> None:
    post = make()
    numbers = []
    for _ in range(3):
        post.note("a/1", Record, of(1))
        [send] = post.flush(CLAIM, {})
        assert isinstance(send.message, Packet)
        numbers.append(send.message.number)
    assert numbers == [1, 2, 3]


def test_marks_go_below_when_they_are_new_or_when_reminded() -> None:
    post = make()

    def marks() -> list[tuple[tuple[str, int], ...]]:
        sends = post.flush(CLAIM, {"s": 5}, ["b/0"])
        return [each.message.marks for each in sends if isinstance(each.message, Packet)]

    post.note("a/1", Record, of(1))
    assert marks() == [()]
    post.confirm("b/0", of(1), 0)
    assert marks() == [(("s", 5),)]
    post.confirm("b/0", of(1), 0)
    assert marks() == [()]
    post.remind("b/0")
    assert marks() == [(("s", 5),)]


def test_repeated_packets_are_noticed() -> None:
    repeats = Repeats()
    assert [repeats.is_new("a", 0, number) for number in (1, 3, 2, 3, 1)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert repeats.is_new("b", 0, 1)
    assert repeats.is_new("a", 1, 1), "another life"


def test_little_is_remembered_and_what_is_older_is_taken_for_a_repeat() -> None:
    repeats = Repeats()
    for number in range(1, 50_000):
        assert repeats.is_new("a", 0, number)
    assert len(repeats._seen["a"]) <= 2 * REMEMBERED
    assert not repeats.is_new("a", 0, 17)
    assert repeats.is_new("a", 0, 10**15)
    assert len(repeats._seen["a"]) <= 2 * REMEMBERED
