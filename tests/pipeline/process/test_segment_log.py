"""The log on disk: whole records or none, whatever cuts it off."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast.errors import StoreCorruptError, StoreUnavailableError
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.pipeline.process import segment_log as disk_log
from holdfast.pipeline.process.segment_log import MARK, DiskLog
from holdfast.storage.chunks import Chunk


def piece(number: int, rows: int = 3) -> Segment:
    """The `number`-th second of a stream."""
    start = number * 1_000_000
    chunk = Chunk.of(pa.table({"n": pa.array([number] * rows, pa.int64())}))
    return Segment(start, start + 1_000_000, (Row(start, None, chunk),) if rows else ())


def found(folder: Path) -> list[tuple[Segment, Any]]:
    log = DiskLog(folder)
    try:
        return [(record.segment, record.facts) for record in log.take()]
    finally:
        log.close()


def wrote(folder: Path, count: int) -> list[tuple[Segment, Any]]:
    log = DiskLog(folder, durable=True)
    written = [(log.append(piece(n, n % 3), {"place": n}), {"place": n}) for n in range(count)]
    log.close()
    return written


def test_what_was_appended_is_found_again(tmp_path: Path) -> None:
    written = wrote(tmp_path, 10)
    again = found(tmp_path)
    assert again == written
    assert again[1][0].rows[0].value.table() == piece(1, 1).rows[0].value.table()


def test_the_chunks_of_what_is_appended_lie_on_disk(tmp_path: Path) -> None:
    log = DiskLog(tmp_path)
    for number in (1, 2):
        [row] = log.append(piece(number), {}).rows
        assert not row.value.in_memory
        assert row.value.table()["n"].to_pylist() == [number] * 3
    log.close()


@pytest.mark.parametrize("seed", range(5))
def test_a_log_that_was_cut_off_anywhere_has_a_beginning_of_what_was_written(
    tmp_path: Path, seed: int
) -> None:
    written = wrote(tmp_path, 8)
    [path, *_] = sorted(tmp_path.glob("*.log"))
    data = path.read_bytes()
    cut = random.Random(seed).randrange(len(data))
    path.write_bytes(data[:cut])
    again = found(tmp_path)
    assert again == written[: len(again)]
    assert len(again) < len(written)
    # And what is appended after that follows it.
    log = DiskLog(tmp_path)
    added = log.append(piece(20), {"place": 20})
    log.close()
    assert found(tmp_path) == [*again, (added, {"place": 20})]


def test_a_torn_tail_is_cut_off_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a power failure brought it back, it would be damage: its file is not the newest then."""
    wrote(tmp_path, 3)
    [path, *_] = sorted(tmp_path.glob("*.log"))
    os.truncate(path, path.stat().st_size - 1)
    flush, flushed = os.fsync, set()

    def note(file: int) -> None:
        flush(file)
        flushed.add((os.fstat(file).st_ino, os.fstat(file).st_size))

    monkeypatch.setattr(os, "fsync", note)
    assert len(found(tmp_path)) == 2
    assert (path.stat().st_ino, path.stat().st_size) in flushed


def test_a_cut_at_any_byte_leaves_the_whole_records_before_it(tmp_path: Path) -> None:
    written = wrote(tmp_path, 3)
    [path, *_] = sorted(tmp_path.glob("*.log"))
    data = path.read_bytes()
    for cut in range(len(data)):
        for zeros in (0, 40):
            path.write_bytes(data[:cut] + bytes(zeros))
            again = found(tmp_path)
            assert again == written[: len(again)]
            assert found(tmp_path) == again
            for each in tmp_path.glob("*.log"):
                if each != path:
                    each.unlink()


def test_a_flipped_bit_is_named_and_costs_one_record(tmp_path: Path) -> None:
    """Whichever byte it is in: file and offset are named, and the other records are kept."""
    written = wrote(tmp_path, 4)
    [path, *_] = sorted(tmp_path.glob("*.log"))
    data = path.read_bytes()
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        path.write_bytes(bytes(flipped))
        log = DiskLog(tmp_path)
        [damage] = log.damage
        with pytest.raises(StoreCorruptError, match=f"{path}: .* at byte {damage.offset}"):
            log.take()
        records = [(each.segment, each.facts) for each in log.take(damaged=True)]
        log.close()
        for each in tmp_path.glob("*.log"):
            if each != path:
                each.unlink()
        assert damage.path == path
        assert damage.offset <= at < damage.offset + damage.size
        lost = [each for each in written if each not in records]
        assert len(lost) == 1
        assert records == [each for each in written if each not in lost]
        assert damage.is_last == (lost == written[-1:])
        assert path.read_bytes() == flipped


def test_what_is_found_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wrote it may have been killed before the disk had it, and what is found is told on."""
    log = DiskLog(tmp_path)
    log.append(piece(1), {})
    log.close()
    [path, *_] = sorted(tmp_path.glob("*.log"))
    flush, flushed = os.fsync, set()

    def note(file: int) -> None:
        flush(file)
        flushed.add(os.fstat(file).st_ino)

    monkeypatch.setattr(os, "fsync", note)
    log = DiskLog(tmp_path, durable=True)
    assert len(log.take()) == 1
    log.close()
    assert {path.stat().st_ino, tmp_path.stat().st_ino} <= flushed


@pytest.mark.parametrize("at", [20, 100])
def test_a_torn_tail_behind_a_flipped_bit_is_all_that_is_cut_off(tmp_path: Path, at: int) -> None:
    """Whether the bit is in the head of its record or behind it."""
    written = wrote(tmp_path, 4)
    [path, *_] = sorted(tmp_path.glob("*.log"))
    data = bytearray(path.read_bytes())
    size = path.stat().st_size
    begins = [place for place in range(size) if data.startswith(MARK, place)]
    data[begins[2] + at] ^= 1
    path.write_bytes(data[: begins[3] + 10] + bytes(size - begins[3] - 10))
    log = DiskLog(tmp_path)
    [damage] = log.damage
    assert damage.offset == begins[2]
    assert damage.is_last
    assert [each.segment for each in log.take(damaged=True)] == [seg for seg, _ in written[:2]]
    log.close()
    assert path.stat().st_size >= begins[3]


def test_the_names_of_new_folders_are_safe_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power failure takes all that is in them, however well it was flushed."""
    flush, flushed = os.fsync, set()

    def note(file: int) -> None:
        flush(file)
        flushed.add(os.fstat(file).st_ino)

    monkeypatch.setattr(os, "fsync", note)
    DiskLog(tmp_path / "party" / "log", durable=True).close()
    folders = (tmp_path, tmp_path / "party", tmp_path / "party" / "log")
    assert {folder.stat().st_ino for folder in folders} <= flushed


def test_an_older_file_that_is_cut_off_is_damaged(tmp_path: Path) -> None:
    wrote(tmp_path, 3)
    kept = wrote(tmp_path, 2)
    older = sorted(tmp_path.glob("*.log"))[0]
    older.write_bytes(older.read_bytes()[:-1])
    log = DiskLog(tmp_path)
    [damage] = log.damage
    assert (damage.path, damage.is_last) == (older, False)
    assert [each.segment for each in log.take(damaged=True)][-2:] == [seg for seg, _ in kept]
    log.close()


def test_a_log_of_the_former_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "000000000.log").write_bytes(b"HFL1" + bytes(100))
    with pytest.raises(StoreCorruptError, match="earlier version"):
        DiskLog(tmp_path)


class FullDisk:
    """A file that takes half of what is written to it, once."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.room = 100

    def write(self, data: memoryview) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self.file.write(data[: self.room])
        self.room -= written
        return int(written)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def test_a_record_that_found_no_room_leaves_nothing_behind(tmp_path: Path) -> None:
    log = DiskLog(tmp_path)
    first = log.append(piece(1), {})
    file = log._file
    log._file = FullDisk(file)
    with pytest.raises(StoreUnavailableError, match="make room"):
        log.append(piece(2), {})
    log._file = file
    third = log.append(piece(3), {})
    assert log.size == sum(path.stat().st_size for path in tmp_path.glob("*.log"))
    log.close()
    assert [segment for segment, _ in found(tmp_path)] == [first, third]


def test_old_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_log, "FILE_SIZE", 1)
    log = DiskLog(tmp_path)
    for number in range(5):
        log.append(piece(number), {})
    log.drop_before(3_000_000)
    assert log.size == sum(path.stat().st_size for path in tmp_path.glob("*.log"))
    log.close()
    assert [segment.start for segment, _ in found(tmp_path)] == [3_000_000, 4_000_000]


def test_the_newest_record_stays_over_restarts_whatever_is_dropped(tmp_path: Path) -> None:
    """It has the place from which a source goes on."""
    wrote(tmp_path, 5)
    for _ in range(3):
        log = DiskLog(tmp_path)
        assert log.take()[-1].facts == {"place": 4}
        log.drop_before(10**12)
        log.close()


def test_a_log_can_be_cleared(tmp_path: Path) -> None:
    wrote(tmp_path, 5)
    log = DiskLog(tmp_path)
    log.clear()
    assert log.size == 0
    kept = log.append(piece(7), {})
    log.close()
    assert found(tmp_path) == [(kept, {})]
