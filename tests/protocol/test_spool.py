"""The spool: what does not fit in memory lies on the shelf, is read from there, and goes."""

from __future__ import annotations

from random import Random

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.spool import Spool
from holdfast.tuples import Row, Segment


class Shelf:
    """Remembers what lies on it; nothing is written or deleted twice."""

    def __init__(self) -> None:
        self.there: dict[int, tuple[Row, ...]] = {}
        self.written: set[int] = set()

    def write(self, number: int, rows: tuple[Row, ...]) -> None:
        assert number not in self.written
        self.written.add(number)
        self.there[number] = rows

    def read(self, number: int) -> tuple[Row, ...]:
        return self.there[number]

    def delete(self, number: int) -> None:
        del self.there[number]


def piece(start: int, end: int) -> Segment:
    return Segment(start, end, tuple(Row(time, "k", time) for time in range(start, end)))


def test_the_newest_stay_in_memory_and_the_others_are_read_back() -> None:
    shelf = Shelf()
    spool = Spool(shelf, in_memory=2)
    for k in range(6):
        spool.append(piece(10 * k, 10 * k + 10))
    assert (len(spool), spool.in_memory, len(shelf.there)) == (6, 2, 4)
    assert list(spool.since(0)) == [piece(10 * k, 10 * k + 10) for k in range(6)]
    assert list(spool.since(15)) == [
        piece(15, 20),
        *(piece(10 * k, 10 * k + 10) for k in range(2, 6)),
    ]


def test_what_is_dropped_leaves_the_shelf() -> None:
    shelf = Shelf()
    spool = Spool(shelf, in_memory=1)
    for k in range(4):
        spool.append(piece(10 * k, 10 * k + 10))
    spool.drop_before(25)
    assert spool.start == 20
    assert len(shelf.there) == 1
    spool.drop_before(40)
    assert (spool.start, len(spool), shelf.there) == (None, 0, {})


def test_without_a_shelf_all_is_in_memory() -> None:
    spool = Spool()
    for k in range(100):
        spool.append(piece(k, k + 1))
    assert spool.in_memory == len(spool) == 100


def test_nothing_is_since_the_end() -> None:
    spool = Spool()
    assert (list(spool.since(0)), spool.start) == ([], None)
    spool.append(piece(0, 10))
    assert list(spool.since(10)) == []


@pytest.mark.parametrize("seed", range(30))
def test_a_shelf_changes_nothing_but_where_it_lies(seed: int) -> None:
    random = Random(seed)
    shelf = Shelf()
    spilled, plain = Spool(shelf, in_memory=random.randint(1, 4)), Spool()
    most = spilled.in_memory
    end = 0
    for _ in range(100):
        if random.random() < 0.6:
            start, end = end, end + random.randint(1, 9)
            for spool in (spilled, plain):
                spool.append(piece(start, end))
        else:
            boundary = random.randint(max(0, end - 40), end)
            for spool in (spilled, plain):
                spool.drop_before(boundary)
        place = random.randint(max(0, end - 60), end)
        assert list(spilled.since(place)) == list(plain.since(place))
        assert len(shelf.there) == len(spilled) - spilled.in_memory
        most = max(most, spilled.in_memory)
    assert most <= 4


@pytest.mark.parametrize(("shelf", "in_memory"), [(Shelf(), None), (None, 3), (Shelf(), 0)])
def test_a_shelf_and_the_room_before_it_go_together(
    shelf: Shelf | None, in_memory: int | None
) -> None:
    with pytest.raises(InvalidArgumentError, match="spool"):
        Spool(shelf, in_memory)
