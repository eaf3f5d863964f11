from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.errors import StoreCorruptError, StoreUnavailableError
from holdfast.storage.journal import NAME, Journal
from holdfast.verify.process.verifier_state import Entry
from tests.verify.process.charters import report, told

ENTRIES = [Entry(float(number), told(1, report(1, str(number)))) for number in range(3)]


def write(folder: Path) -> bytes:
    with Journal(folder, Entry) as journal:
        journal.append(ENTRIES[:2])
        journal.append([ENTRIES[2], Entry(9.5, None)])
    return (folder / NAME).read_bytes()


def test_what_was_written_is_found(tmp_path: Path) -> None:
    write(tmp_path)
    with Journal(tmp_path, Entry) as journal:
        assert journal.found == (*ENTRIES, Entry(9.5, None))
        journal.append([Entry(11.0, None)])
    with Journal(tmp_path, Entry) as journal:
        assert journal.found[-1] == Entry(11.0, None)


def test_whatever_a_crash_cut_off_the_rest_is_there(tmp_path: Path) -> None:
    data = write(tmp_path)
    for length in range(0, len(data), 5):
        (tmp_path / NAME).write_bytes(data[:length])
        with Journal(tmp_path, Entry) as journal:
            found = journal.found
            journal.append([Entry(12.0, None)])
        assert found == (*ENTRIES, Entry(9.5, None))[: len(found)]
        with Journal(tmp_path, Entry) as journal:
            assert journal.found == (*found, Entry(12.0, None))


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4, 7, 8, 20])
def test_damage_that_no_crash_does_is_not_passed_over(at: int, tmp_path: Path) -> None:
    """Be it in the length of an entry, in its checksum or in the entry itself."""
    data = bytearray(write(tmp_path))
    for bit in (1, 0x80):
        damaged = bytearray(data)
        damaged[at] ^= bit
        (tmp_path / NAME).write_bytes(bytes(damaged))
        with pytest.raises(StoreCorruptError, match="damaged at byte 0"):
            Journal(tmp_path, Entry)
        assert (tmp_path / NAME).read_bytes() == damaged, "nothing is cut off"


def test_one_at_a_time(tmp_path: Path) -> None:
    with Journal(tmp_path, Entry), pytest.raises(StoreUnavailableError, match="another process"):
        Journal(tmp_path, Entry)
    Journal(tmp_path, Entry).close()


def test_what_cannot_be_written_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write(tmp_path)
    with Journal(tmp_path, Entry) as journal:

        def fail(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fdatasync", fail)
        with pytest.raises(StoreUnavailableError, match="No space left"):
            journal.append([Entry(13.0, None)])
    assert (tmp_path / NAME).read_bytes() == before


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailableError, match="file"):
        Journal(tmp_path / "file", Entry)


def test_others_stand_for_what_was_written(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / NAME).with_suffix(".new").write_bytes(b"left by a crash")
    with Journal(tmp_path, Entry) as journal:
        journal.rewrite([Entry(10.0, None)])
        journal.append([Entry(11.0, None)])
        with pytest.raises(StoreUnavailableError, match="another process has it"):
            Journal(tmp_path, Entry)
    with Journal(tmp_path, Entry) as journal:
        assert journal.found == (Entry(10.0, None), Entry(11.0, None))


def test_what_cannot_be_written_anew_stays(tmp_path: Path) -> None:
    write(tmp_path)
    with Journal(tmp_path, Entry) as journal:
        (tmp_path / NAME).with_suffix(".new").mkdir()
        with pytest.raises(StoreUnavailableError, match="make room"):
            journal.rewrite([])
        journal.append([Entry(11.0, None)])
    with Journal(tmp_path, Entry) as journal:
        assert journal.found == (*ENTRIES, Entry(9.5, None), Entry(11.0, None))
