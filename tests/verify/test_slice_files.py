"""Slice files: what is read is what was agreed on, whatever lies in the storage."""

from __future__ import annotations

import itertools
import os
import random
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pytest

from holdfast.errors import StoreUnavailableError
from holdfast.protocol.verification import Holder
from holdfast.verify.slice_files import (
    PIECE_ROWS,
    SliceWriter,
    Written,
    read_slice,
)

SCHEMA = pa.schema({"meter": pa.int64(), "name": pa.string()})
FOLDER = PurePosixPath("job/0/hourly/0-0")
ROWS = 2 * PIECE_ROWS + 7


def table_of(rows: int) -> pa.Table:
    return pa.table(
        {"meter": range(rows), "name": [f"meter {at}" for at in range(rows)]}, schema=SCHEMA
    )


def write(storage: Path, table: pa.Table, cuts: list[int] | None = None) -> Written:
    with SliceWriter(storage, FOLDER, 3, SCHEMA) as writer:
        places = [0, *(cuts or []), table.num_rows]
        for start, stop in itertools.pairwise(places):
            writer.add(table.slice(start, stop - start))
        return writer.finish()


def read(storage: Path, *copies: Written) -> tuple[pa.Table, list[int]]:
    """The rows of the slice that the last copy has, and whose copies were found bad."""
    holders = [Holder(number, "here", each.path) for number, each in enumerate(copies)]
    bad: list[int] = []
    tell = lambda holder, _: bad.append(holder.replica)  # noqa: E731
    pieces = list(read_slice(storage, copies[-1].digest, holders, tell))
    return pa.concat_tables(pieces), bad


@pytest.mark.parametrize("rows", [0, 1, PIECE_ROWS - 1, PIECE_ROWS, PIECE_ROWS + 1, ROWS])
def test_a_slice_is_read_as_it_was_written(tmp_path: Path, rows: int) -> None:
    table = table_of(rows)
    written = write(tmp_path, table)
    assert written.rows == rows
    assert read(tmp_path, written) == (table, [])
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == [Path(written.path).name]


def test_how_the_rows_come_does_not_matter(tmp_path: Path) -> None:
    table = table_of(ROWS)
    rng = random.Random(5)
    digests = {
        write(tmp_path, table, sorted(rng.sample(range(ROWS), count))).digest
        for count in (0, 1, 3, 50)
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    "other",
    [
        table_of(ROWS - 1),
        table_of(ROWS).set_column(1, "name", pa.array(["x"] * ROWS)),
        table_of(ROWS).take([*list(range(ROWS - 2)), ROWS - 1, ROWS - 2]),
    ],
    ids=["a row less", "other values", "another order"],
)
def test_other_rows_have_another_digest(tmp_path: Path, other: pa.Table) -> None:
    assert write(tmp_path, other).digest != write(tmp_path, table_of(ROWS)).digest


def test_the_columns_of_a_slice_without_rows_are_known(tmp_path: Path) -> None:
    assert read(tmp_path, write(tmp_path, table_of(0)))[0].schema == SCHEMA


def test_a_bad_piece_is_taken_from_the_next_copy(tmp_path: Path) -> None:
    """Also when pieces of the bad copy have been given out already."""
    table = table_of(ROWS)
    first, second = write(tmp_path, table), write(tmp_path, table)
    path = tmp_path / first.path
    data = bytearray(path.read_bytes())
    data[data.rfind(b"meter 20000")] ^= 1
    path.write_bytes(data)
    assert read(tmp_path, first, second) == (table, [0])


def test_a_file_with_other_rows_is_found_out_by_its_index(tmp_path: Path) -> None:
    right, wrong = write(tmp_path, table_of(ROWS)), write(tmp_path, table_of(ROWS - 1))
    (tmp_path / right.path).write_bytes((tmp_path / wrong.path).read_bytes())
    good = write(tmp_path, table_of(ROWS))
    assert read(tmp_path, right, good)[1] == [0]


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    table = table_of(40)
    first, second = write(tmp_path, table), write(tmp_path, table)
    path = tmp_path / first.path
    data = path.read_bytes()
    for at in range(0, 8 * len(data), 7):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        path.write_bytes(flipped)
        rows, bad = read(tmp_path, first, second)
        assert rows == table, at
        assert bad in ([], [0])


def test_files_that_end_too_early_or_go_on_are_found(tmp_path: Path) -> None:
    table = table_of(40)
    first, second = write(tmp_path, table), write(tmp_path, table)
    path = tmp_path / first.path
    data = path.read_bytes()
    for other in (b"", data[:8], data[:-1], data[1:], data + b"\0", b"\0" + data):
        path.write_bytes(other)
        assert read(tmp_path, first, second) == (table, [0])


@pytest.mark.parametrize("path", ["../outside", "/etc/hostname", "job/none", "job", "pipe", "link"])
def test_only_plain_files_of_the_storage_are_read(tmp_path: Path, path: str) -> None:
    storage = tmp_path / "storage"
    table = table_of(40)
    good = write(storage, table)
    (tmp_path / "outside").write_bytes((storage / good.path).read_bytes())
    os.mkfifo(storage / "pipe")
    (storage / "link").symlink_to(tmp_path / "outside")
    assert read(storage, replace(good, path=path), good) == (table, [0])


def test_no_right_copy_is_an_error_that_names_whom_it_asked(tmp_path: Path) -> None:
    written = write(tmp_path, table_of(40))
    nowhere = Written("nowhere", bytes(32), 40)
    with pytest.raises(StoreUnavailableError, match=r"replicas: 0 \(job/.*\), 1 \(nowhere\)"):
        read(tmp_path, written, nowhere)


def test_what_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    with SliceWriter(tmp_path, FOLDER, 3, SCHEMA) as writer:
        writer.add(table_of(ROWS))
    assert list((tmp_path / FOLDER).iterdir()) == []
