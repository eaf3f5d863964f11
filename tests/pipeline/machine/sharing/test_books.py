"""Address books agree whatever the order of what they are told."""

from __future__ import annotations

from itertools import permutations

from holdfast.pipeline.machine.sharing import Book, Claim

RING = ("a", "b", "c", "d")


def test_at_first_each_has_its_own_seat() -> None:
    book = Book(RING)
    assert book.live == RING
    assert [book.sitter(seat) for seat in range(4)] == list(RING)
    assert book.life("b") == 0


def test_who_takes_over_sits_there_and_the_other_is_fenced() -> None:
    book = Book(RING)
    book.take("c", 0, book.seats_of("b"))
    assert book.live == ("a", "c", "d")
    assert book.sitter(1) == book.heir("b") == "c"
    assert book.life("b") is None
    assert book.home("b") == Claim(1, "c", 0)


def test_seats_follow_when_the_taker_is_taken_over_from() -> None:
    """Also if nobody has claimed the first one's seat again."""
    book = Book(RING)
    book.take("c", 0, [1])
    assert book.seats_of("c") == (1, 2)
    book.take("d", 0, [2])
    assert book.sitter(1) == "d"
    assert book.heir("b") == "d"


def test_two_who_hold_each_others_seat_do_not_send_a_book_round_in_circles() -> None:
    book = Book(("a", "b"))
    book.take("b", 0, [0])
    book.take("a", 0, [1])
    assert book.sitter(0) in ("a", "b")
    assert book.live == ()


def test_books_agree_in_the_end() -> None:
    told = [
        (Claim(0, "a", 0), Claim(1, "c", 0), Claim(0, "c", 0), Claim(0, "d", 0)),
        (Claim(0, "a", 0), Claim(1, "d", 0), Claim(0, "c", 0), Claim(0, "d", 0)),
        (Claim(0, "a", 5), Claim(2, "b", 1), Claim(0, "c", 0), Claim(0, "d", 0)),
    ]
    ends = set()
    for order in permutations(told):
        book = Book(RING)
        assert book.learn(order[0])
        for claims in order:
            book.learn(claims)
            assert not book.learn(claims)
        ends.add(book.claims)
    assert len(ends) == 1
    assert ends.pop()[1] == Claim(2, "b", 1)


def test_the_next_live_one_is_never_oneself() -> None:
    book = Book(RING)
    assert [book.next_live(name) for name in RING] == ["b", "c", "d", "a"]
    assert book.next_live("a", {"b", "c"}) == "d"
    assert book.next_live("a", {"b", "c", "d"}) is None
    book.take("a", 0, [1])
    assert book.next_live("a") == "c"
    assert Book(["a"]).next_live("a") is None


def test_strangers_claim_nothing() -> None:
    book = Book(("a", "b"))
    assert not book.learn([Claim(9, "x", 0)])
    assert book.live == ("a", "b")


def test_a_claim_to_the_own_seat_is_learned_if_it_is_newer() -> None:
    book = Book(("a", "b"))
    assert book.learn_home(Claim(1, "b", 7))
    assert not book.learn_home(Claim(0, "b", 9))
    assert book.is_live("b", 7)
