"""Pieces of a journal: who reads which, and from where."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.pipeline.stages.entries import (
    FEW_ROWS,
    MANY_ROWS,
    Entry,
    Journal,
    Order,
    Piece,
    PieceReader,
    Wanted,
    divided,
    journal_ticket,
    read_journal_ticket,
)
from holdfast.storage.chunks import Chunk
from holdfast.transport.server import LogServer
from tests.pipeline.stages.replicas import Journals


def wanted(*rows: int) -> list[Wanted]:
    return [
        Wanted(1, at, Piece(0, at, Chunk.stored(Path("nowhere"), 0, 0, count, bytes(32))))
        for at, count in enumerate(rows)
    ]


@given(st.lists(st.integers(1, 2 * MANY_ROWS)), st.integers(1, 8))
def test_every_piece_is_read_by_one_task_in_order(rows: list[int], tasks: int) -> None:
    pieces = wanted(*rows)
    parts = divided(pieces, tasks)
    assert [each for part in parts for each in part] == pieces
    assert len(parts) == 1 or all(parts)
    for part in parts[:-1]:
        counts = [each.piece.chunk.rows for each in part]
        assert sum(counts) >= FEW_ROWS
        assert sum(counts[:-1]) < max(FEW_ROWS, MANY_ROWS)


def test_there_is_one_task_for_each_core_if_it_has_enough_to_do() -> None:
    assert [len(part) for part in divided(wanted(*[16_384] * 64), 2)] == [32, 32]
    assert [len(part) for part in divided(wanted(*[100] * 64), 2)] == [64]
    assert [len(part) for part in divided(wanted(*[MANY_ROWS] * 3), 2)] == [1, 1, 1]


def test_tickets_are_read_as_they_were_written() -> None:
    assert read_journal_ticket(journal_ticket(12, 3)) == (12, 3)
    for wrong in (b"", b"journal 1", b"journal x 1", b"journal 1 2 3", b"log 1 2"):
        assert read_journal_ticket(wrong) is None


def test_rows_come_from_the_file_or_else_from_the_server(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "here")
    table = pa.table({"n": [1, 2, 3]})
    entry = journal.append(Entry(0, Order.WORK, 0, 1, pieces=(Piece(0, 0, Chunk.of(table)),)))
    [piece] = journal.read(entry.number).pieces
    with PieceReader(("127.0.0.1", 1), None) as reader:
        assert reader.read(Wanted(entry.number, 0, piece)) == table
    away = Chunk.stored(tmp_path / "away", 0, 9, 3, piece.chunk.digest)
    with (
        LogServer(("127.0.0.1", 0), None, Journals(tmp_path / "here")) as server,
        PieceReader(server.address, None) as reader,
    ):
        assert reader.read(Wanted(entry.number, 0, Piece(0, 0, away))) == table
        other = Chunk.stored(tmp_path / "away", 0, 9, 3, bytes(32))
        with pytest.raises(HoldfastError, match="is not what was decided"):
            reader.read(Wanted(entry.number, 0, Piece(0, 0, other)))
