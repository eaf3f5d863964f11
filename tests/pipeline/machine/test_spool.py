"""The spool: segments of a log in their order, compared with a plain list."""

from __future__ import annotations

from random import Random

import pytest

from holdfast.pipeline.machine.output_log import Spool
from holdfast.pipeline.machine.tuples import Row, Segment


def piece(start: int, end: int, *, empty: bool = False) -> Segment:
    times = () if empty else range(start, end)
    return Segment(start, end, tuple(Row(time, "k", time) for time in times))


def test_nothing_is_since_the_end() -> None:
    spool = Spool()
    assert (list(spool.since(0)), spool.start, spool.first_rows) == ([], None, None)
    spool.append(piece(0, 10))
    assert list(spool.since(10)) == []


def test_silence_is_one_segment_and_has_no_rows() -> None:
    spool = Spool()
    for start in range(0, 36_000, 10):
        spool.append(piece(start, start + 10, empty=True))
    assert (len(spool), spool.first_rows) == (1, None)
    spool.append(piece(36_000, 36_010))
    assert (len(spool), spool.first_rows) == (2, 36_000)


@pytest.mark.parametrize("seed", range(50))
def test_a_spool_answers_as_a_list_does(seed: int) -> None:
    random = Random(seed)
    spool, plain = Spool(), list[Segment]()
    end = 0
    for _ in range(300):
        if random.random() < 0.6:
            # Now and then something before it was given up, which leaves a hole.
            start = end + random.choice([0, 0, 0, 0, 7])
            end = start + random.randint(1, 9)
            segment = piece(start, end, empty=random.random() < 0.4)
            spool.append(segment)
            follows = bool(plain) and plain[-1].end == start
            if follows and not (segment.rows or plain[-1].rows):
                segment = Segment(plain.pop().start, end, ())
            plain.append(segment)
        elif random.random() < 0.5:
            boundary = random.randint(max(0, end - 60), end + 3)
            spool.drop_before(boundary)
            plain = [each for each in plain if each.end > boundary]
        place = random.randint(max(0, end - 80), end + 3)
        assert list(spool.since(place)) == [each.after(place) for each in plain if each.end > place]
        assert spool.first_rows == next((each.start for each in plain if each.rows), None)
        assert spool.start == (plain[0].start if plain else None)
        assert len(spool) == len(plain)
