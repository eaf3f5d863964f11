"""Who sits where, among replicas that share the work of a stage."""

from __future__ import annotations

from collections import deque

from holdfast.pipeline.machine.sharing import Claim, Rules
from holdfast.pipeline.machine.sharing.messages import (
    Announce,
    Message,
    Ping,
    Snapshot,
    TakeOver,
    View,
)
from holdfast.pipeline.machine.sharing.seats import Seating

NAMES = ("clean/1", "clean/2", "clean/3")
RULES = Rules(period=20_000, retry=20_000, nudge=80_000, patience=100_000)


class Table:
    """Some who sit, or not; words arrive at once."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.there: dict[str, Seating] = {}
        self.cut: set[str] = set()

    def start(self, *names: str, life: int | None = None) -> None:
        for name in names:
            born = self.now // 1000 if life is None else life
            self.there[name] = Seating(name, NAMES, RULES, life=born, now=self.now)

    def run(self, ticks: int = 100) -> None:
        for _ in range(ticks):
            self.now += 10_000
            words: deque[tuple[str, str, Message]] = deque()
            for name, each in self.there.items():
                if self.now >= each.due:
                    words += [(name, send.to, send.message) for send in each.wake(self.now)]
            while words:
                sender, to, message = words.popleft()
                if to in self.there and not {sender, to} & self.cut:
                    answers = self.there[to].receive(sender, message, self.now)  # type: ignore[arg-type]
                    words += [(to, send.to, send.message) for send in answers]

    @property
    def seats(self) -> dict[str, tuple[int, ...]]:
        return {name: each.seats for name, each in self.there.items()}


THEIRS = {"clean/1": (0,), "clean/2": (1,), "clean/3": (2,)}


def test_each_sits_in_its_own_seat() -> None:
    table = Table()
    table.start(*NAMES)
    assert set(table.seats.values()) == {()}, "nobody sits before it has heard the others"
    table.run()
    assert table.seats == THEIRS


def test_the_first_to_come_sits_everywhere_until_the_others_are_there() -> None:
    table = Table()
    table.start("clean/2")
    table.run()
    assert table.seats == {"clean/2": (0, 1, 2)}
    table.start("clean/1", "clean/3")
    table.run()
    assert table.seats == THEIRS


def test_the_next_one_takes_over_and_the_seat_goes_back() -> None:
    table = Table()
    table.start(*NAMES)
    table.run()
    del table.there["clean/3"]
    table.run()
    assert table.seats == {"clean/1": (0, 2), "clean/2": (1,)}
    table.start("clean/3")
    table.run()
    assert table.seats == THEIRS


def test_those_who_were_cut_off_from_each_other_agree_again() -> None:
    table = Table()
    table.start(*NAMES)
    table.run()
    table.cut.add("clean/2")
    table.run()
    assert table.seats["clean/2"] == (0, 1, 2), "it thinks that it is alone"
    assert table.seats["clean/3"] == (1, 2)
    table.cut.clear()
    table.run(200)
    assert table.seats == THEIRS


def test_one_whose_clock_was_set_back_gets_its_seat() -> None:
    table = Table()
    table.start(*NAMES)
    table.run()
    table.start("clean/1", life=3)
    table.run(200)
    assert table.seats == THEIRS


def test_words_that_make_no_sense_change_nothing() -> None:
    table = Table()
    table.start(*NAMES)
    table.run()
    one = table.there["clean/1"]
    claims = (Claim(9, "clean/2", 1),) * 3
    for sender, word in (
        ("stranger", Ping(1, claims)),
        ("clean/1", Ping(1, claims)),
        ("clean/2", View("another", claims)),
        ("clean/2", View("stage", claims[:2])),
        ("clean/2", View("stage", tuple(Claim(9, "stranger", 1) for _ in range(3)))),
        ("clean/2", Announce(1, View("readers", claims[:1]))),
        ("clean/2", Snapshot(1, (), (), (), ())),
        ("clean/2", TakeOver("stranger", 0, ())),
    ):
        one.receive(sender, word, table.now)
    assert one.seats == (0,)
    table.run()
    assert table.seats == THEIRS
