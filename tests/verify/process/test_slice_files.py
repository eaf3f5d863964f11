"""Slice files: what is read is what was agreed on, whatever lies in the storage."""

from __future__ import annotations

import errno
import itertools
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import pyarrow as pa
import pytest

from holdfast.errors import InvalidArgumentError, StoreUnavailableError
from holdfast.verify.machine import Holder
from holdfast.verify.process import slice_files
from holdfast.verify.process.slice_files import (
    PIECE_ROWS,
    SliceWriter,
    UnreadableError,
    Written,
    is_broken,
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


def read(
    storage: Path, *copies: Written, pause: Callable[[float], None] | None = None
) -> tuple[pa.Table, list[int]]:
    """The rows of the slice that the last copy has, and whose copies were found bad."""
    holders = [Holder(number, "here", each.path) for number, each in enumerate(copies)]
    bad: list[int] = []
    tell = lambda holder, _: bad.append(holder.replica)  # noqa: E731
    wanted = copies[-1]
    pieces = read_slice(storage, wanted.digest, wanted.rows, holders, tell, pause or pytest.fail)
    return pa.concat_tables(list(pieces)), bad


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


def test_metadata_that_nobody_voted_on_is_not_given_out(tmp_path: Path) -> None:
    """Spark reads other columns than there are where metadata says so."""
    table = table_of(40)
    written = write(tmp_path, table)
    digest = table_digest(tmp_path, written)
    fields = [field.with_metadata({"PARQUET:field_id": "7"}) for field in SCHEMA]
    schema = pa.schema(fields, {"org.apache.spark.sql.parquet.row.metadata": "{}"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(table.cast(schema))
    data = sink.getvalue().to_pybytes()
    end = slice_files._ENTRY.pack(len(data), digest) + slice_files._END.pack(40, 1)
    (tmp_path / written.path).write_bytes(data + end)
    found, _ = read(tmp_path, written)
    assert found.schema.equals(SCHEMA, check_metadata=True)
    assert found == table


def table_digest(storage: Path, written: Written) -> bytes:
    """Of the only piece."""
    end = (storage / written.path).read_bytes()[-slice_files._END.size - 32 :]
    return end[:32]


def test_no_more_is_read_than_a_slice_of_so_many_rows_can_have(tmp_path: Path) -> None:
    """Whatever a file says that is as long as disks are."""
    table = table_of(40)
    first, second = write(tmp_path, table), write(tmp_path, table)
    path = tmp_path / first.path
    digest = table_digest(tmp_path, first)
    huge = 2**42
    many = huge // slice_files._ENTRY.size
    for rows, pieces, length in ((40, many, 0), (40, 1, huge), (many * PIECE_ROWS, many, 0)):
        end = slice_files._ENTRY.pack(length, digest) + slice_files._END.pack(rows, pieces)
        with path.open("wb") as file:
            file.truncate(huge)
            file.seek(huge)
            file.write(end)
        assert read(tmp_path, first, second) == (table, [0])


def test_rows_that_are_too_large_for_readers_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_files, "PIECE_BYTES", 2**20)
    write(tmp_path, table_of(PIECE_ROWS))
    rows = table_of(4).set_column(1, "name", pa.array(["x" * 2**20] * 4))
    with pytest.raises(InvalidArgumentError, match="4 rows have 4 MiB, of which 1 may be"):
        write(tmp_path, rows)


@pytest.mark.parametrize(
    "path",
    [
        *("../outside", "/etc/hostname", "job/none", "job", "", ".", "a\0b", "x" * 5000),
        *("pipe", "link", "loop", "loop/x", "job/../link", "folder/outside", "chain"),
    ],
)
def test_only_plain_files_of_the_storage_are_read(tmp_path: Path, path: str) -> None:
    storage = tmp_path / "storage"
    table = table_of(40)
    good = write(storage, table)
    (tmp_path / "outside").write_bytes((storage / good.path).read_bytes())
    os.mkfifo(storage / "pipe")
    (storage / "link").symlink_to(tmp_path / "outside")
    (storage / "loop").symlink_to("loop")
    (storage / "folder").symlink_to(tmp_path)
    for at in range(1500):
        (storage / f"chain{at or ''}").symlink_to(f"chain{at + 1}")
    assert read(storage, replace(good, path=path), good) == (table, [0])


class Storage:
    """One that does not give out some files, for a while."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *paths: str) -> None:
        self.paths = set(paths)
        self.pauses: list[float] = []
        self._open = slice_files._open
        monkeypatch.setattr(slice_files, "_open", self.open)

    def open(self, storage: Path, path: str) -> BinaryIO:
        if path in self.paths:
            raise OSError(errno.ESTALE, "Stale file handle")
        return self._open(storage, path)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def mend(self, seconds: float) -> None:
        self.pause(seconds)
        self.paths.clear()


def test_who_cannot_be_read_is_not_accused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(40)
    first, second = write(tmp_path, table), write(tmp_path, table)
    Storage(monkeypatch, first.path)
    assert read(tmp_path, first, second) == (table, [])
    assert not is_broken(tmp_path, second.digest, 40, Holder(2, "here", second.path))


def test_a_storage_that_comes_back_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(40)
    first, second = write(tmp_path, table), write(tmp_path, table)
    storage = Storage(monkeypatch, first.path, second.path)
    assert read(tmp_path, first, second, pause=storage.mend) == (table, [])
    assert len(storage.pauses) == 1


def test_a_storage_that_stays_away_is_an_error_and_nobodys_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write(tmp_path, table_of(40)), write(tmp_path, table_of(40))
    (tmp_path / first.path).unlink()
    storage = Storage(monkeypatch, second.path)
    bad: list[int] = []
    holders = [Holder(1, "here", first.path), Holder(2, "here", second.path)]
    with pytest.raises(UnreadableError, match="none of its copies can be read"):
        list(
            read_slice(
                tmp_path,
                second.digest,
                40,
                holders,
                lambda holder, _: bad.append(holder.replica),
                storage.pause,
            )
        )
    assert bad == [1], "it is not there"
    assert 10 < sum(storage.pauses) < 60
    assert is_broken(tmp_path, second.digest, 40, holders[0])
    assert not is_broken(tmp_path, second.digest, 40, holders[1])


def test_a_storage_that_is_not_there_is_nobodys_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_files, "PAUSES", ())
    written = write(tmp_path, table_of(40))
    with pytest.raises(UnreadableError):
        read(tmp_path / "none", written)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnreadableError):
        read(tmp_path / "empty", written)


def test_no_right_copy_is_an_error_that_names_whom_it_asked(tmp_path: Path) -> None:
    written = write(tmp_path, table_of(40))
    nowhere = Written("nowhere", bytes(32), 40)
    with pytest.raises(StoreUnavailableError, match=r"replicas: 0 \(job/.*\), 1 \(nowhere\)"):
        read(tmp_path, written, nowhere)


def test_what_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    with SliceWriter(tmp_path, FOLDER, 3, SCHEMA) as writer:
        writer.add(table_of(ROWS))
    assert list((tmp_path / FOLDER).iterdir()) == []
