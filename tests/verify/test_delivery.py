"""Delivery: what the user gets is what was agreed upon, or nothing."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.errors import InvalidArgumentError, StoreError
from holdfast.protocol.verification import Agreed, Holder, Run, StageState, Verdict
from holdfast.verify.delivery import deliver
from holdfast.verify.slice_files import PIECE_ROWS, SliceWriter

SCHEMA = pa.schema({"n": pa.int64()})
ROWS = [PIECE_ROWS + 3, 0, 5]


class Accused:
    def __init__(self) -> None:
        self.accused: list[tuple[str, int, int]] = []

    def broken(self, stage: str, number: int, maker: int) -> None:
        self.accused.append((stage, number, maker))


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return tmp_path / "storage"


@pytest.fixture
def verdict(storage: Path) -> Verdict:
    """Of a stage that replicas 1 and 2 hold."""
    slices = {}
    for number, rows in enumerate(ROWS):
        holders = []
        for replica in (1, 2):
            folder = PurePosixPath("job", str(replica), "bills", "0-0")
            with SliceWriter(storage, folder, number, SCHEMA) as writer:
                writer.add(pa.table({"n": range(rows)}, schema=SCHEMA))
                written = writer.finish()
            holders.append(Holder(replica, "here", written.path))
        slices[number] = Agreed(written.digest, written.rows, tuple(holders))
    return Verdict("bills", Run(), StageState.OK, slices)


def spoil(storage: Path, verdict: Verdict, number: int, replica: int) -> None:
    holder = verdict.slices[number].holders[replica - 1]
    path = storage / holder.path
    path.write_bytes(path.read_bytes()[:-1])


def test_all_rows_are_delivered(storage: Path, verdict: Verdict, tmp_path: Path) -> None:
    accused = Accused()
    assert deliver(storage, verdict, tmp_path / "out" / "bills", accused) == sum(ROWS)
    table = pq.read_table(tmp_path / "out" / "bills")
    assert table.num_rows == sum(ROWS)
    assert table["n"].to_pylist() == [n for rows in ROWS for n in range(rows)]
    assert accused.accused == []
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["bills"]


def test_a_bad_copy_is_told_on_and_left_out(
    storage: Path, verdict: Verdict, tmp_path: Path
) -> None:
    spoil(storage, verdict, 0, 1)
    accused = Accused()
    deliver(storage, verdict, tmp_path / "bills", accused)
    assert accused.accused == [("bills", 0, 1)]
    assert pq.read_table(tmp_path / "bills").num_rows == sum(ROWS)


def test_without_a_right_copy_nothing_is_delivered(
    storage: Path, verdict: Verdict, tmp_path: Path
) -> None:
    for replica in (1, 2):
        spoil(storage, verdict, 2, replica)
    with pytest.raises(StoreError, match="none of its copies is right"):
        deliver(storage, verdict, tmp_path / "bills", Accused())
    assert [path.name for path in tmp_path.iterdir()] == ["storage"]


def test_what_is_not_agreed_upon_is_not_delivered(
    storage: Path, verdict: Verdict, tmp_path: Path
) -> None:
    half = Verdict("bills", Run(), StageState.OPEN, {0: verdict.slices[0]})
    with pytest.raises(InvalidArgumentError, match="stage bills: is not agreed upon"):
        deliver(storage, half, tmp_path / "bills", Accused())


def test_a_folder_that_is_there_is_left_alone(
    storage: Path, verdict: Verdict, tmp_path: Path
) -> None:
    (tmp_path / "bills").mkdir()
    with pytest.raises(StoreError, match="is there already"):
        deliver(storage, verdict, tmp_path / "bills", Accused())
