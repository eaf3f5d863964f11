"""Rows that wait behave as a sorted dictionary, wherever they lie, and few are in memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipeline.gates.waiting import Waiting
from holdfast.pipeline.machine.tuples import ROW, Row
from simulator.parties.shelf import MemoryShelf

SIZE = 10


STEP = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 3), st.integers(1, 4)),
    st.tuples(st.just("drop"), st.integers(0, 8), st.just(0)),
    st.tuples(st.just("read"), st.integers(0, 40), st.integers(0, 40)),
)


@given(
    st.lists(STEP, max_size=120), st.sampled_from([1, 4 * ROW, 16 * ROW, 64 * ROW]), st.booleans()
)
def test_it_is_a_sorted_dictionary(
    steps: list[tuple[str, int, int]], room: int, spills: bool
) -> None:
    shelf = MemoryShelf()
    waiting = Waiting(SIZE, room, shelf if spills else None)
    model: dict[int, list[Row]] = {}
    newest = dropped = 0
    for what, first, second in steps:
        if what == "add":
            newest = max(newest + first, dropped)
            rows = [Row(newest * SIZE + place, None, place) for place in range(second)]
            waiting.add(newest, rows)
            model.setdefault(newest, []).extend(rows)
        elif what == "drop":
            dropped += first
            waiting.drop_before(dropped)
            model = {number: rows for number, rows in model.items() if number >= dropped}
        else:
            expected = [number for number in sorted(model) if first <= number < second]
            assert list(waiting.numbers(first, second)) == expected
            assert [waiting[number] for number in expected] == [model[n] for n in expected]
        assert len(waiting) == len(model)
        total = sum(map(len, model.values())) * ROW
        largest = max((len(rows) for rows in model.values()), default=0) * ROW
        if spills:
            assert waiting.in_memory <= room * 9 / 8 + 4 * largest
            assert waiting.on_shelf == ROW * sum(map(len, shelf.pages.values()))
        else:
            assert waiting.in_memory == total
    assert list(waiting.numbers(0, newest + 1)) == sorted(model)
    waiting.drop_before(newest + 1)
    assert not shelf.pages


def test_the_newest_and_the_oldest_are_in_memory() -> None:
    shelf = MemoryShelf()
    waiting = Waiting(SIZE, 40 * ROW, shelf)
    for number in range(10_000):
        waiting.add(number, [Row(number * SIZE, None, 0)])
    pages = {row.stime // SIZE for rows in shelf.pages.values() for row in rows}
    assert pages.isdisjoint(range(15))
    assert pages.isdisjoint(range(9_990, 10_000))
    assert waiting.in_memory <= 45 * ROW
