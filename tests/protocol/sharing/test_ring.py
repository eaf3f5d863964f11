"""Each watches the next, and nobody watches himself."""

from __future__ import annotations

from holdfast.protocol.sharing import Book
from holdfast.protocol.sharing.ring import Ring


def test_unanswered_pings_make_a_suspect_and_the_next_one_is_watched() -> None:
    ring = Ring("a", Book("abc"), missed=2)
    assert [ring.beat() for _ in range(3)] == ["b", "b", "b"]
    assert not ring.suspects
    assert ring.beat() == "c"
    assert ring.suspects == {"b"}
    assert ring.taker("b") == "c"


def test_an_answer_begins_the_count_anew() -> None:
    ring = Ring("a", Book("abc"), missed=2)
    for _ in range(20):
        assert ring.beat() == "b"
        ring.heard("b")
    assert not ring.suspects


def test_two_neighbours_that_are_down_are_both_found() -> None:
    ring = Ring("a", Book("abcd"), missed=1)
    while len(ring.suspects) < 2:
        ring.beat()
    assert ring.suspects == {"b", "c"}
    assert ring.taker("b") == ring.taker("c") == "d"
    assert ring.beat() == "d"


def test_of_two_the_last_one_pings_nobody() -> None:
    book = Book("ab")
    ring = Ring("a", book, missed=1)
    for _ in range(3):
        ring.beat()
    assert ring.suspects == {"b"}
    assert ring.beat() is None
    assert ring.taker("b") == "a"
    book.take("a", 0, book.seats_of("b"))
    assert ring.beat() is None
    assert not ring.suspects, "it has been taken over from"


def test_one_who_answers_after_all_is_no_suspect() -> None:
    ring = Ring("a", Book("abc"), missed=1)
    for _ in range(3):
        ring.beat()
    ring.heard("b")
    assert not ring.suspects
    assert ring.beat() == "b"


def test_one_who_is_alone_pings_nobody() -> None:
    assert Ring("a", Book("a"), missed=1).beat() is None
