"""The journal of a replica on disk."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.errors import StoreCorruptError
from holdfast.pipeline.stages import gate_source
from holdfast.pipeline.stages.entries import (
    Entry,
    Journal,
    Order,
    Piece,
    journal_ticket,
    read_journal_ticket,
)
from holdfast.pipeline.stages.gate_source import KEPT, GateReader
from holdfast.storage.chunks import Chunk
from tests.flushing import Flushes


def chunk(*values: float) -> Chunk:
    times = pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * len(values), pa.timestamp("us", "UTC"))
    return Chunk.of(pa.table({"stime": times, "v": pa.array(values, pa.float64())}))


def entry(**kind) -> Entry:
    pieces = (Piece(0, -3, chunk(1.0, 2.0)), Piece(1, -3, chunk()), Piece(0, -2, chunk(3.0)))
    return Entry(0, Order.WORK, -3, -1, True, pieces, **kind)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def path(journal: Journal) -> Path:
    journal.append(entry(state=b"state"))
    return journal.folder / "000000000001.entry"


def test_an_entry_comes_back_as_it_was(journal):
    written = journal.append(entry(state=b"state"))
    read = journal.read(written.number)
    assert read == written
    assert [each.chunk.table() for each in read.pieces] == [
        each.chunk.table() for each in written.pieces
    ]


def test_an_entry_is_safe_before_spark_can_plan_it(journal, monkeypatch):
    """Else a power failure leaves a checkpoint that is ahead of its journal."""
    flushes = Flushes(monkeypatch)
    seen = []
    rename = Path.rename

    def see(unfinished, path):
        seen.append((path, flushes.is_whole(unfinished)))
        return rename(unfinished, path)

    monkeypatch.setattr(Path, "rename", see)
    journal.append(entry(state=b"state"))
    [(path, was_whole)] = seen
    assert was_whole
    assert flushes.is_safe(path)


def test_entries_go_when_the_checkpoint_is_safe(journal, monkeypatch):
    """What a power failure takes of the checkpoint is done again with them."""
    for _ in range(KEPT + 10):
        journal.append(entry())
    left = []
    monkeypatch.setattr(
        gate_source, "sync_files_at", lambda path: left.append((path, len(list(journal.since(0)))))
    )
    reader = object.__new__(GateReader)
    reader.folder, reader._dropped = journal.folder.parent, 0
    reader.commit({"entry": KEPT - 1})
    assert not left
    reader.commit({"entry": KEPT + 5})
    assert left == [(journal.folder.parent, KEPT + 10)]
    assert [each.number for each in journal.since(0)] == [KEPT + 6 + n for n in range(5)]


def test_numbers_go_on_after_reopening_even_if_all_was_dropped(journal):
    assert journal.last == 0
    assert [journal.append(entry()).number for _ in range(3)] == [1, 2, 3]
    journal.drop_to(3)
    again = Journal(journal.folder)
    assert again.last == 3
    assert again.append(entry()).number == 4
    assert [each.number for each in again.since(0)] == [3, 4]
    again.drop_to(3)
    assert [each.number for each in again.since(0)] == [4]


def test_an_entry_that_was_not_finished_is_none(journal, monkeypatch):
    journal.append(entry())
    with monkeypatch.context() as broken:
        broken.setattr(Chunk, "read", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            journal.append(entry())
    assert Journal(journal.folder).last == 1
    assert journal.append(entry()).number == 2
    assert journal.read(2).pieces == entry().pieces


def test_other_files_do_not_matter(journal):
    journal.append(entry())
    for name in ("x.entry", ".entry", "7.entry.crc", "-5.entry", "000000000009.unfinished"):
        (journal.folder / name).touch()
    assert Journal(journal.folder).last == 1


def test_a_missing_entry_is_named_with_the_remedy(journal):
    with pytest.raises(StoreCorruptError, match=r"000000000007.entry: entry 7 .* empty folder"):
        journal.read(7)


def test_no_cut_goes_unnoticed(journal, path):
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreCorruptError):
            journal.read(1)


def test_no_flipped_bit_goes_unnoticed(journal, path):
    whole = path.read_bytes()
    original = journal.read(1)
    tables = [each.chunk.table() for each in original.pieces]
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        try:
            found = journal.read(1)
        except StoreCorruptError:
            continue
        # Rows are checked by those who read them, against this.
        assert found == original
    path.write_bytes(whole)
    assert [each.chunk.table() for each in journal.read(1).pieces] == tables


def test_tickets():
    assert read_journal_ticket(journal_ticket(12, 3)) == (12, 3)
    for other in (b"", b"journal", b"journal 1", b"journal x 1", b"log 1 2", b"journal 1 2 3"):
        assert read_journal_ticket(other) is None
