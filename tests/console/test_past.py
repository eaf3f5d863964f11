"""What was said of one thing, against a list of all that was."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from holdfast.console.history import Past

START = 1_790_000_000.0


@given(st.lists(st.tuples(st.integers(0, 90), st.binary(max_size=3))), st.integers(0, 100))
def test_it_is_the_last_word_before(words: list[tuple[int, bytes]], asked: int) -> None:
    past = Past()
    words.sort(key=lambda word: word[0])
    for at, said in words:
        past.add(START + at, said)
    before = [said for at, said in words if at <= asked]
    assert past.at(START + asked) == (before[-1] if before else None)


def test_after_an_hour_the_oldest_is_gone_but_for_the_last_before_it() -> None:
    past = Past(seconds=60)
    for second in range(0, 601, 50):
        past.add(START + second, b"%d" % second)
    assert past.at(START + 545) == b"500"
    assert past.at(START + 499) is None
    assert past.at(START + 600) == b"600"


def test_its_memory_is_bounded() -> None:
    past = Past(most=10_000)
    draw = random.Random(1)
    for second in range(100):
        past.add(START + second, draw.randbytes(1000))
    assert sum(map(len, past._words)) <= 10_000
    assert past.at(START + 99) is not None
    assert past.at(START + 50) is None
    past.add(START + 100, draw.randbytes(50_000))
    newest = past.at(START + 100)
    assert newest is not None, "the newest stays, however large it is"
    assert len(newest) == 50_000
