"""What the dead had in hand is asked for by who answers for them, and is not given up too early."""

from __future__ import annotations

from holdfast.pipeline.machine.sharing import Book, Claim, TupleId
from holdfast.pipeline.machine.sharing.batching import Post
from holdfast.pipeline.machine.sharing.messages import Packet, Request
from holdfast.pipeline.machine.sharing.tables import Holder, SharedTable
from holdfast.pipeline.machine.sharing.tuple_tables import Recovery

X, Y = TupleId("s", 1), TupleId("s", 2)
ABOVE = ("s/0", "s/1")


def make() -> tuple[Recovery, Book, Post]:
    book, table, post = Book(("a", "b", "c")), SharedTable(), Post(lambda name: 0)
    table.record(X, Holder("b", 0))
    table.record(Y, Holder("c", 0))
    return Recovery("a", book, table, post), book, post


def asked(post: Post) -> dict[str, tuple[object, ...]]:
    sends = post.flush(Claim(0, "a", 0), {})
    return {each.to: each.message.items for each in sends if isinstance(each.message, Packet)}


def test_what_the_dead_had_is_asked_for_above_again_and_again() -> None:
    recovery, book, post = make()
    recovery.look([])
    assert not recovery.wanted
    book.take("a", 0, [1])
    recovery.look([])
    assert set(recovery.wanted) == {X}
    for now in (0, 10, 20):
        recovery.ask(ABOVE, 10, now)
        assert asked(post) == dict.fromkeys(ABOVE, (Request((X,)),))
        recovery.ask(ABOVE, 10, now + 9)
        assert asked(post) == {}


def test_only_who_has_the_seat_asks() -> None:
    recovery, book, _ = make()
    book.take("c", 0, [1])
    recovery.look([])
    assert not recovery.wanted
    assert recovery.answers_for(X) == "c"
    book.take("a", 0, [2])
    recovery.look([])
    assert set(recovery.wanted) == {X, Y}, "the taker is dead too"


def test_what_a_former_life_had_is_asked_for_by_the_new_one() -> None:
    recovery, book, _ = make()
    book.take("b", 1, [1])
    assert recovery.answers_for(X) == "b"
    recovery.look([])
    assert not recovery.wanted


def test_what_is_in_hand_is_not_asked_for() -> None:
    recovery, book, _ = make()
    book.take("a", 0, [1])
    recovery.look([X])
    assert not recovery.wanted


def test_a_tuple_is_missing_when_nobody_above_has_it() -> None:
    recovery, book, _ = make()
    book.take("a", 0, [1])
    recovery.look([])
    assert not recovery.missing("s/0", X, ABOVE)
    assert not recovery.missing("s/0", X, ABOVE)
    assert not recovery.missing("s/1", Y, ABOVE)
    assert recovery.missing("s/1", X, ABOVE)
    assert recovery.drop(X)
    assert not recovery.drop(X)
