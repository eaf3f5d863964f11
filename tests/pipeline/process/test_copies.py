"""Copies of a state on disk: those that are given, and the one that is taken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidValueError, StoreUnavailableError
from holdfast.pipeline.machine.messages import StateOffer, StatePiece
from holdfast.pipeline.process.copies import Copies, Taking
from holdfast.pipeline.stages.states import PIECE, StateFiles, StateWriter, file_name

SHARDS = (0, 5)
SIZES = {0: 2 * PIECE + 7, 5: 0}


def made(folder: Path, copy: int = 3) -> tuple[Copies, StateOffer]:
    copies = Copies(folder)
    reports = {}
    for shard, size in SIZES.items():
        with StateWriter(copies.folder(copy) / file_name(0, shard)) as file:
            for at in range(0, size, 1000):
                file.write(bytes([at % 251]) * min(1000, size - at))
        reports[shard] = [file.report]
    return copies, copies.finish(copy, StateFiles.of(reports).write(), 12, 4)


def test_a_copy_arrives_as_it_was_made_in_whatever_order_its_pieces_come(tmp_path: Path) -> None:
    copies, offer = made(tmp_path / "copies")
    assert (offer.pieces, offer.size) == (3, sum(SIZES.values()))
    taking = Taking(tmp_path / "taken", SHARDS)
    taking.check(offer)
    taking.begin(offer)
    for number in (2, 0, 1):
        piece = copies.piece(3, number)
        assert piece is not None
        assert taking.is_right(piece)
        taking.take(piece)
    assert taking.taken == taking.size == offer.size
    folder = taking.installed(3)
    for path in folder.iterdir():
        assert path.read_bytes() == (copies.folder(3) / path.name).read_bytes()
    taking.sweep()
    assert not folder.exists()


def test_a_piece_that_was_changed_on_its_way_is_not_right(tmp_path: Path) -> None:
    copies, offer = made(tmp_path / "copies")
    taking = Taking(tmp_path / "taken", SHARDS)
    taking.begin(offer)
    piece = copies.piece(3, 1)
    assert piece is not None
    for data in (piece.data[:-1], b"", piece.data[:-1] + b"x", piece.data + b"x"):
        assert not taking.is_right(StatePiece(3, 1, data))
    assert not taking.is_right(StatePiece(3, 0, piece.data)), "it is another one"
    assert not taking.is_right(StatePiece(3, 99, piece.data))
    assert taking.is_right(piece)


def test_a_piece_that_is_damaged_on_the_disk_is_not_sent(tmp_path: Path) -> None:
    copies, _ = made(tmp_path)
    with (copies.folder(3) / "0-0").open("r+b") as file:
        file.seek(PIECE + 5)
        file.write(b"damage")
    assert copies.piece(3, 0) is not None
    assert copies.piece(3, 1) is None
    assert copies.piece(4, 0) is None, "there is no such copy"
    copies.drop(3)
    assert copies.piece(3, 0) is None


def test_a_copy_outlives_a_restart_and_one_that_is_not_whole_does_not(tmp_path: Path) -> None:
    _, offer = made(tmp_path)
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "0-0.unfinished").write_bytes(b"half")
    again = Copies(tmp_path)
    assert again.resume() == offer
    assert again.piece(3, 0) is not None
    assert [path.name for path in tmp_path.iterdir()] == ["3"]


def offer_of(files: Any, pieces: int | None = None) -> StateOffer:
    found = StateFiles(()) if not isinstance(files, StateFiles) else files
    count = found.pieces if pieces is None else pieces
    data = files.write() if isinstance(files, StateFiles) else json.dumps(files).encode()
    return StateOffer(3, count, found.size, 12, 4, data)


@pytest.mark.parametrize(
    "files",
    [
        [["../0-0", 1, ["a" * 64]]],
        [["/0-0", 1, ["a" * 64]]],
        [["0-0", 1, []]],
        [["0-0", -1, []]],
        [["0-0", 1.0, ["a" * 64]]],
        [["0-0", 1, [7]]],
        [["0-0", 0, []], ["0-0", 0, []]],
        [["0-0"]],
        {"a": 1},
        7,
        None,
    ],
)
def test_a_copy_that_is_described_wrongly_is_refused(tmp_path: Path, files: Any) -> None:
    taking = Taking(tmp_path, SHARDS)
    with pytest.raises(InvalidValueError, match="described wrongly"):
        taking.check(offer_of(files))


def test_a_copy_of_another_stage_or_of_other_pieces_is_refused(tmp_path: Path) -> None:
    taking = Taking(tmp_path, SHARDS)
    files = StateFiles.of({0: [(0, ())]})
    with pytest.raises(InvalidValueError, match="other shards"):
        taking.check(offer_of(files))
    files = StateFiles.of({0: [(0, ())], 5: [(0, ())]})
    taking.check(offer_of(files))
    with pytest.raises(InvalidValueError, match="other pieces"):
        taking.check(offer_of(files, pieces=2))


def test_a_copy_for_which_there_is_no_room_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, offer = made(tmp_path / "copies")
    total = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: total._replace(free=offer.size - 1))
    with pytest.raises(StoreUnavailableError, match="make room"):
        Taking(tmp_path / "taken", SHARDS).check(offer)
