from __future__ import annotations

import errno
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.errors import InvalidArgumentError, StoreUnavailableError
from holdfast.verify.machine import (
    Agreed,
    Holder,
    JobState,
    Plan,
    Run,
    StageState,
    Standing,
    Verdict,
)
from holdfast.verify.process import delivery, slice_files
from holdfast.verify.process.delivery import UndeliverableError, check_output, deliver, grouped
from holdfast.verify.process.slice_files import SliceWriter

PLAN = Plan({"first": [], "last": ["first"]}, slices=2)
ROWS = pa.table({"n": [1, 2, 3]})


def write(storage: Path, replica: int, number: int) -> tuple[bytes, Holder]:
    folder = PurePosixPath("job", str(replica), "last")
    with SliceWriter(storage, folder, number, ROWS.schema) as writer:
        writer.add(ROWS.slice(number))
        written = writer.finish()
    return written.digest, Holder(replica, f"h{replica}", written.path)


@pytest.fixture
def standing(tmp_path: Path) -> Standing:
    slices = {}
    for number in (0, 1):
        copies = [write(tmp_path / "storage", replica, number) for replica in (1, 2)]
        holders = tuple(holder for _, holder in copies)
        slices[number] = Agreed(copies[0][0], 3 - number, holders)
    verdicts = {
        "first": Verdict("first", Run(), StageState.OK, {}),
        "last": Verdict("last", Run(), StageState.OK, slices),
    }
    return Standing(JobState.DONE, verdicts)


def test_only_what_nobody_reads_is_delivered(tmp_path: Path, standing: Standing) -> None:
    bad: list[tuple[str, int, int]] = []
    rows = deliver(
        PLAN, standing, tmp_path / "storage", tmp_path / "out", lambda *copy: bad.append(copy)
    )
    assert rows == 5
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["last"]
    found = [pq.read_table(path) for path in sorted((tmp_path / "out" / "last").iterdir())]
    assert found == [ROWS, ROWS.slice(1)]
    assert bad == []


def test_another_copy_is_taken_where_one_was_changed(tmp_path: Path, standing: Standing) -> None:
    first = standing.verdicts["last"].slices[1].holders[0]
    path = tmp_path / "storage" / first.path
    data = path.read_bytes()
    path.write_bytes(data.replace((2).to_bytes(8, "little"), (7).to_bytes(8, "little")))
    bad: list[tuple[str, int, int]] = []
    deliver(PLAN, standing, tmp_path / "storage", tmp_path / "out", lambda *copy: bad.append(copy))
    assert bad == [("last", 1, 1)]
    assert pq.read_table(tmp_path / "out" / "last" / "00001.parquet") == ROWS.slice(1)


def test_nothing_is_written_if_something_is_missing(tmp_path: Path, standing: Standing) -> None:
    for agreed in standing.verdicts["last"].slices.values():
        for holder in agreed.holders:
            (tmp_path / "storage" / holder.path).unlink()
    bad: list[tuple[str, int, int]] = []
    with pytest.raises(UndeliverableError, match="none of its copies is right"):
        deliver(
            PLAN, standing, tmp_path / "storage", tmp_path / "out", lambda *copy: bad.append(copy)
        )
    assert sorted(bad) == [("last", 0, 1), ("last", 0, 2), ("last", 1, 1), ("last", 1, 2)]
    assert [each.name for each in tmp_path.iterdir()] == ["storage"]


def test_a_row_group_has_many_pieces(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array(range(40_000), pa.int64())})
    storage = tmp_path / "storage"
    with SliceWriter(storage, PurePosixPath("job"), 0, rows.schema) as writer:
        writer.add(rows)
        written = writer.finish()
    agreed = Agreed(written.digest, written.rows, (Holder(1, "h1", written.path),))
    verdict = Verdict("last", Run(), StageState.OK, {0: agreed})
    standing = Standing(JobState.DONE, {"last": verdict})
    deliver(Plan({"last": ()}, 1), standing, storage, tmp_path / "out", pytest.fail)
    found = pq.ParquetFile(tmp_path / "out" / "last" / "00000.parquet")
    assert found.num_row_groups == 1
    assert found.read() == rows


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [((10, 2**20), [12, 3]), ((2**20, 6 * 8), [6, 6, 3]), ((2**20, 2**20), [15])],
)
def test_a_row_group_is_bounded_in_rows_and_bytes(
    bounds: tuple[int, int], expected: list[int]
) -> None:
    pieces = [pa.table({"n": pa.array([number] * 3, pa.int64())}) for number in range(5)]
    groups = list(grouped(pieces, *bounds))
    assert [group.num_rows for group in groups] == expected
    assert pa.concat_tables(groups) == pa.concat_tables(pieces)


def test_where_something_is_nothing_is_delivered(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="is there already"):
        check_output(tmp_path)
    with pytest.raises(InvalidArgumentError, match="no folder that may be written to"):
        check_output(tmp_path / "none" / "out")
    check_output(tmp_path / "out")


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path, standing: Standing) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailableError, match=r"--output: .*Not a directory"):
        deliver(PLAN, standing, tmp_path / "storage", tmp_path / "file" / "out", lambda *copy: None)


def test_what_may_not_last_is_not_delivered(
    tmp_path: Path, standing: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(folder: Path) -> None:
        if (tmp_path / "out").exists():
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(delivery, "_sync", sync)
    with pytest.raises(StoreUnavailableError, match=r"--output: .*Input/output error"):
        deliver(PLAN, standing, tmp_path / "storage", tmp_path / "out", pytest.fail)
    assert [each.name for each in tmp_path.iterdir()] == ["storage"]


def test_a_storage_that_fails_accuses_nobody(
    tmp_path: Path, standing: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(slice_files, "_open", fail)
    monkeypatch.setattr(slice_files, "PAUSES", ())
    with pytest.raises(
        StoreUnavailableError, match=r"can be read; .* the storage is there"
    ) as found:
        deliver(PLAN, standing, tmp_path / "storage", tmp_path / "out", pytest.fail)
    assert not isinstance(found.value, UndeliverableError), "it would be computed again"
    assert [each.name for each in tmp_path.iterdir()] == ["storage"]


def test_columns_that_parquet_does_not_have_are_named(tmp_path: Path) -> None:
    rows = pa.table({"nothing": pa.array([{}], pa.struct([]))})
    with SliceWriter(tmp_path, PurePosixPath("job"), 0, rows.schema) as writer:
        writer.add(rows)
        written = writer.finish()
    agreed = Agreed(written.digest, 1, (Holder(1, "h1", written.path),))
    verdict = Verdict("last", Run(), StageState.OK, {0: agreed})
    with pytest.raises(InvalidArgumentError, match=r"--output: .*struct.*cast such columns"):
        deliver(
            Plan({"last": []}, slices=1),
            Standing(JobState.DONE, {"last": verdict}),
            tmp_path,
            tmp_path / "out",
            pytest.fail,
        )


def test_metadata_that_nobody_voted_on_is_not_delivered(tmp_path: Path, standing: Standing) -> None:
    """Nor anything else than is in every other file."""
    (agreed, _) = standing.verdicts["last"].slices.values()
    path = tmp_path / "storage" / agreed.holders[0].path
    end = path.read_bytes()[-slice_files._END.size - 32 :]
    schema = ROWS.schema.with_metadata({"org.apache.spark.sql.parquet.row.metadata": "{}"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(ROWS.cast(schema))
    data = sink.getvalue().to_pybytes()
    path.write_bytes(data + len(data).to_bytes(8, "little") + end)
    deliver(PLAN, standing, tmp_path / "storage", tmp_path / "out", pytest.fail)
    written = [
        pq.read_metadata(tmp_path / "out" / "last" / f"0000{number}.parquet").metadata
        for number in (0, 1)
    ]
    assert written[0] == written[1]
    assert pq.read_table(tmp_path / "out" / "last" / "00000.parquet") == ROWS
