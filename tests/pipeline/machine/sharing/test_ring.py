"""Each watches the next, and nobody watches himself."""

from __future__ import annotations

from holdfast.pipeline.machine.sharing import Book, Rules
from holdfast.pipeline.machine.sharing.membership import Ring

PERIOD = 100


class Watch:
    """A ring whose beats come every period; all but the `dead` answer."""

    def __init__(self, names: str) -> None:
        self.book = Book(names)
        self.ring = Ring("a", self.book, Rules(period=PERIOD))
        self.dead: set[str] = set()
        self.now = 0

    def beat(self, times: int = 1) -> str | None:
        target = None
        for _ in range(times):
            self.now += PERIOD
            target = self.ring.beat(self.now)
            if target is not None and target not in self.dead:
                self.ring.heard(target, self.now + 5)
        return target

    def until_suspected(self, name: str) -> int:
        start = self.now
        while name not in self.ring.suspects:
            self.beat()
            assert self.now < start + 50 * PERIOD
        return (self.now - start) // PERIOD


def test_who_answers_is_no_suspect() -> None:
    watch = Watch("abc")
    assert watch.beat(100) == "b"
    assert not watch.ring.suspects


def test_silence_makes_a_suspect_and_the_next_one_is_watched() -> None:
    watch = Watch("abc")
    watch.beat(100)
    watch.dead = {"b"}
    assert 3 <= watch.until_suspected("b") <= 8
    assert watch.beat() == "c"
    assert watch.ring.taker("b") == "c"


def test_one_that_often_does_not_answer_is_given_longer() -> None:
    regular, irregular = Watch("abc"), Watch("abc")
    regular.beat(100)
    for _ in range(40):
        irregular.beat()
        irregular.dead = {"b"}
        irregular.beat(3)
        irregular.dead = set()
    for watch in (regular, irregular):
        watch.beat()
        watch.dead = {"b"}
    assert irregular.until_suspected("b") > regular.until_suspected("b")


def test_one_that_never_answered_is_found_too() -> None:
    watch = Watch("abc")
    watch.dead = {"b"}
    assert watch.until_suspected("b") <= 8


def test_two_neighbours_that_are_down_are_both_found() -> None:
    watch = Watch("abcd")
    watch.dead = {"b", "c"}
    watch.until_suspected("c")
    assert watch.ring.suspects == {"b", "c"}
    assert watch.ring.taker("b") == watch.ring.taker("c") == "d"
    assert watch.beat() == "d"


def test_of_two_the_last_one_pings_nobody() -> None:
    watch = Watch("ab")
    watch.dead = {"b"}
    watch.until_suspected("b")
    assert watch.beat() is None
    assert watch.ring.taker("b") == "a"
    watch.book.take("a", 0, watch.book.seats_of("b"))
    assert watch.beat(20) is None
    assert not watch.ring.suspects, "it has been taken over from"


def test_one_who_answers_after_all_is_no_suspect() -> None:
    watch = Watch("abc")
    watch.dead = {"b"}
    watch.until_suspected("b")
    watch.ring.heard("b", watch.now)
    watch.dead = set()
    assert not watch.ring.suspects
    assert watch.beat() == "b"


def test_one_who_slept_suspects_nobody() -> None:
    watch = Watch("abc")
    watch.beat(20)
    watch.now += 1_000 * PERIOD
    watch.beat(20)
    assert not watch.ring.suspects


def test_one_who_is_alone_pings_nobody() -> None:
    assert Watch("a").beat(3) is None
