"""Rows that wait for an input, in files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.errors import StoreUnavailableError
from holdfast.pipeline.machine.tuples import Row
from holdfast.pipeline.process.copies import DiskShelf
from holdfast.storage.chunks import Chunk


def rows_of(*values: str) -> list[Row]:
    return [
        Row(place, None, Chunk.of(pa.table({"x": [value] * 3})))
        for place, value in enumerate(values)
    ]


def test_a_page_is_read_as_it_was_put(tmp_path: Path) -> None:
    shelf = DiskShelf(tmp_path / "waiting")
    rows = rows_of("a", "b")
    page, other = shelf.put(rows), shelf.put(rows_of("c"))
    found = shelf.get(page)
    assert found == rows
    assert [row.value.table() for row in found] == [row.value.table() for row in rows]
    assert [row.value.size for row in found] == [row.value.size for row in rows]
    shelf.drop(page)
    assert shelf.get(other) == rows_of("c")
    assert len(list((tmp_path / "waiting").iterdir())) == 1


def test_a_new_life_begins_with_an_empty_shelf(tmp_path: Path) -> None:
    DiskShelf(tmp_path / "waiting").put(rows_of("a"))
    DiskShelf(tmp_path / "waiting")
    assert not list((tmp_path / "waiting").iterdir())


def test_a_damaged_page_is_an_error_and_never_other_rows(tmp_path: Path) -> None:
    shelf = DiskShelf(tmp_path / "waiting")
    page = shelf.put(rows_of("a", "b"))
    [path] = (tmp_path / "waiting").iterdir()
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        with pytest.raises(StoreUnavailableError, match="is damaged"):
            shelf.get(page)
    for length in (0, 5, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreUnavailableError, match="is damaged"):
            shelf.get(page)
    path.unlink()
    with pytest.raises(StoreUnavailableError, match="reads its inputs anew"):
        shelf.get(page)


def test_a_full_disk_is_an_error_that_says_so(tmp_path: Path) -> None:
    shelf = DiskShelf(tmp_path / "waiting")
    (tmp_path / "waiting").rmdir()
    with pytest.raises(StoreUnavailableError, match="make room on the disk"):
        shelf.put(rows_of("a"))
