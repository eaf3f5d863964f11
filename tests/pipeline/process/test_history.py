"""What a replica finds of its earlier lives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.errors import StoreCorruptError, StoreUnavailableError
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.pipeline.process.output_log import History
from holdfast.pipeline.process.segment_log import MARK, DiskLog
from holdfast.storage.chunks import Chunk
from tests.flushing import Flushes

SIZE = 10


@contextmanager
def life(folder: Path) -> Iterator[History]:
    history = History(folder)
    try:
        yield history
    finally:
        history.close()


def stretch(start: int, end: int) -> Segment:
    """A row in each bucket: the number of its bucket."""
    return Segment(
        start,
        end,
        tuple(
            Row(stime, None, Chunk.of(pa.table({"n": [stime // SIZE]})))
            for stime in range(start, end, SIZE)
        ),
    )


def numbers(segments: list[Segment]) -> list[int]:
    return [
        number
        for segment in segments
        for row in segment.rows
        for number in row.value.table()["n"].to_pylist()
    ]


def test_an_empty_folder_has_no_state(tmp_path: Path) -> None:
    with life(tmp_path) as history:
        assert not history.has_state
        assert (history.base, history.done, history.consistent_from) == (0, 0, 0)
        assert history.take_published(SIZE) == []


def test_the_next_life_goes_on_where_this_one_was(tmp_path: Path) -> None:
    with life(tmp_path) as history:
        stored = history.add(stretch(0, 30), 4, 0)
        assert numbers([stored]) == [0, 1, 2]
        history.add(stretch(30, 50), 7, 0)
    with life(tmp_path) as history:
        assert (history.has_state, history.base, history.done) == (True, 50, 7)
        # What the query still had in its journal.
        history.recall(history.add(stretch(50, 60), 8, history.consistent_from))
        published = history.take_published(SIZE)
        assert [(each.start, each.end) for each in published] == [
            (start, start + SIZE) for start in range(0, 60, SIZE)
        ]
        assert numbers(published) == [0, 1, 2, 3, 4, 5]
        assert history.take_published(SIZE) == []


def test_all_that_is_logged_is_safe_before_anybody_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's checkpoint comes after it, and must not be ahead of it after a power failure."""
    flushes = Flushes(monkeypatch)
    with life(tmp_path / "log") as history:
        history.add(stretch(0, 30), 4, 0)
        assert flushes.are_safe(tmp_path, "*.log")
        history.restart(60, 5, 60)
        assert flushes.are_safe(tmp_path, "*.log")
        history.replace(200, 6, 0)
        assert flushes.are_safe(tmp_path, "*.log")
        history.add_older([stretch(100, 200)])
        assert flushes.are_safe(tmp_path / "log" / "older", "*.log")
        history.end_older(100)
        assert flushes.are_safe(tmp_path, "*.log")


def test_what_came_of_an_empty_state_too_early_is_left_out(tmp_path: Path) -> None:
    with life(tmp_path) as history:
        history.add(stretch(0, 30), 1, 0)
        history.restart(100, 2, 120)
        history.add(stretch(100, 150), 3, 120)
    with life(tmp_path) as history:
        assert (history.base, history.done, history.consistent_from) == (150, 3, 120)
        assert numbers(history.take_published(SIZE)) == [12, 13, 14]


def test_nothing_before_a_hole_is_published_again(tmp_path: Path) -> None:
    with life(tmp_path) as history:
        history.add(stretch(0, 30), 1, 0)
        history.add(stretch(40, 60), 2, 0)
    with life(tmp_path) as history:
        assert numbers(history.take_published(SIZE)) == [4, 5]


def test_what_follows_damage_is_kept_and_a_peer_asked_for_the_rest(tmp_path: Path) -> None:
    """All of it was published, so no state is lost with it."""
    with life(tmp_path) as history:
        history.replace(20, 3, 0)
        history.add_older([stretch(0, 20)])
        history.end_older(0)
        for number in range(2, 6):
            history.add(stretch(10 * number, 10 * number + 10), number + 2, 0)
    path = max(tmp_path.glob("*.log"), key=lambda each: each.stat().st_size)
    data = bytearray(path.read_bytes())
    flipped = [at for at in range(len(data)) if data.startswith(MARK, at)][2] + 100
    data[flipped] ^= 1
    path.write_bytes(data)
    with life(tmp_path) as history:
        [damage] = history.damage
        assert damage.path == path
        assert damage.offset <= flipped < damage.offset + damage.size
        assert (history.has_state, history.base, history.done) == (True, 60, 7)
        assert not history.is_whole
        history.add_older([stretch(20, 40)])
    with life(tmp_path) as history:
        assert history.damage == []
        assert not history.is_whole
        assert (history.has_state, history.base, history.done) == (True, 60, 7)
        assert numbers(history.take_published(SIZE)) == [2, 3, 4, 5]
        history.end_older(20)
    with life(tmp_path) as history:
        assert history.is_whole


def test_a_damaged_log_of_a_peer_is_asked_for_again(tmp_path: Path) -> None:
    with life(tmp_path) as history:
        history.replace(80, 12, 0)
        history.add_older([stretch(60, 80)])
        history.end_older(60)
        history.add(stretch(80, 90), 13, 0)
    path = max((tmp_path / "older").glob("*.log"), key=lambda each: each.stat().st_size)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    for is_damaged in (True, False):
        with life(tmp_path) as history:
            assert bool(history.damage) == is_damaged
            assert (history.has_state, history.base, history.is_whole) == (True, 90, False)
            assert numbers(history.take_published(SIZE)) == [8]


def test_damage_at_the_end_leaves_no_state(tmp_path: Path) -> None:
    with life(tmp_path) as history:
        for number in range(3):
            history.add(stretch(10 * number, 10 * number + 10), number + 1, 0)
    path = max(tmp_path.glob("*.log"), key=lambda each: each.stat().st_size)
    data = bytearray(path.read_bytes())
    data[-30] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreCorruptError, match=f"{path}: the last record, at byte "):
        History(tmp_path)


def test_the_state_of_a_peer_takes_the_place_of_all(tmp_path: Path) -> None:
    with life(tmp_path) as history:
        history.add(stretch(0, 30), 9, 0)
        history.replace(80, 12, 50)
        history.add(stretch(80, 90), 13, 50)
    with life(tmp_path) as history:
        assert (history.base, history.done, history.consistent_from) == (90, 13, 50)
        assert numbers(history.take_published(SIZE)) == [8]


def test_the_log_of_a_peer_follows_from_the_newest_to_the_oldest(tmp_path: Path) -> None:
    with life(tmp_path) as history:
        history.replace(80, 12, 0)
        history.add_older([stretch(60, 70), stretch(70, 80)])
        history.add(stretch(80, 90), 13, 0)
        history.add_older([stretch(40, 50), stretch(50, 60)])
    with life(tmp_path) as history:
        assert (history.base, history.done) == (90, 13)
        assert numbers(history.take_published(SIZE)) == [4, 5, 6, 7, 8]


def test_another_state_of_a_peer_comes_without_the_log_of_the_first(tmp_path: Path) -> None:
    with life(tmp_path) as history:
        history.replace(80, 12, 0)
        history.add_older([stretch(60, 80)])
        history.replace(100, 20, 0)
    with life(tmp_path) as history:
        assert (history.base, history.done) == (100, 20)
        assert numbers(history.take_published(SIZE)) == []


def test_a_crash_while_a_state_is_replaced_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(log: DiskLog, *given: object) -> Segment:
        raise StoreUnavailableError("killed here")

    with life(tmp_path) as history:
        history.add(stretch(0, 30), 9, 0)
        monkeypatch.setattr(DiskLog, "append", fail)
        with pytest.raises(StoreUnavailableError):
            history.replace(80, 12, 50)
    with life(tmp_path) as history:
        assert not history.has_state
        assert history.base == 0


def test_what_is_forgotten_stays_forgotten(tmp_path: Path) -> None:
    with life(tmp_path) as history:
        history.add(stretch(0, 30), 9, 0)
        history.forget()
        assert (history.has_state, history.base) == (False, 0)
    with life(tmp_path) as history:
        assert not history.has_state
