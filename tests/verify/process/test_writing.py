"""What is agreed upon is written once, however often the coordinator is killed."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from holdfast.errors import InvalidArgumentError
from holdfast.verify import verified_write
from holdfast.verify.process.boundaries import Target
from holdfast.verify.process.writing import is_once, write_once, write_staged

ROWS = pa.table({"id": [1, 2, 3], "day": ["mon", "mon", "tue"]})


def target(folder: Path, mode: str, format: str = "parquet", by: tuple[str, ...] = ()) -> Target:
    return Target(format, mode, str(folder / "out"), None, by, {})


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    place = tmp_path / "staged"
    place.mkdir()
    pq.write_table(ROWS, place / "00000.parquet")
    return place


def rows_in(spark: SparkSession, folder: Path, format: str = "parquet") -> list[int]:
    return sorted(
        row["id"] for row in spark.read.format(format).load(str(folder / "out")).collect()
    )


@pytest.mark.parametrize(("mode", "expected"), [("overwrite", [1, 2, 3]), ("append", [1, 2, 3, 9])])
def test_a_second_time_changes_nothing(
    spark: SparkSession, tmp_path: Path, staged: Path, mode: str, expected: list[int]
) -> None:
    spark.createDataFrame([(9, "sun")], "id BIGINT, day STRING").write.partitionBy("day").parquet(
        str(tmp_path / "out")
    )
    goal = target(tmp_path, mode, by=("day",))
    assert is_once(goal)
    write_staged(staged, goal, "job.w", {})
    assert rows_in(spark, tmp_path) == expected
    write_staged(staged, goal, "job.w", {})
    assert rows_in(spark, tmp_path) == expected
    # Killed before the mark was there.
    next((tmp_path / "out").glob("_holdfast*")).unlink()
    write_staged(staged, goal, "job.w", {})
    assert rows_in(spark, tmp_path) == expected
    assert {each.name for each in tmp_path.iterdir()} == {"staged", "out"}


def test_all_files_are_forced_to_the_disk_before_they_get_their_name(
    spark: SparkSession, tmp_path: Path, staged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()
    sync = os.fsync

    def note(handle: int) -> None:
        sync(handle)
        if not (tmp_path / "out").exists():
            synced.add(os.readlink(f"/proc/self/fd/{handle}"))

    monkeypatch.setattr(os, "fsync", note)
    write_staged(staged, target(tmp_path, "errorifexists", by=("day",)), "job.w", {})
    part = tmp_path / ".out.job.w.part"
    found = [each.relative_to(tmp_path / "out") for each in (tmp_path / "out").rglob("*")]
    wanted = {str(part / each) for each in found if each.suffix == ".parquet" or "day" in each.name}
    assert len(wanted) >= 4
    assert {str(part), *wanted} <= synced


def test_one_that_was_killed_between_two_renames_goes_on(
    spark: SparkSession, tmp_path: Path, staged: Path
) -> None:
    spark.range(9, 10).write.parquet(str(tmp_path / ".out.job.w.old"))
    write_staged(staged, target(tmp_path, "append"), "job.w", {})
    assert rows_in(spark, tmp_path) == [1, 2, 3, 9]


def test_an_append_that_was_killed_goes_on_though_spark_cuts_rows_otherwise_now(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(9, 10).write.parquet(str(tmp_path / "out"))
    moved = 0
    rename = Path.rename

    def fail(file: Path, to: Path) -> Path:
        nonlocal moved
        moved += 1
        if moved > 3:
            raise KeyboardInterrupt
        return rename(file, to)

    def once(partitions: int) -> None:
        write_once(
            lambda: spark.range(4).repartitionByRange(partitions, "id"),
            tmp_path / "staged",
            target(tmp_path, "append"),
            "job.w",
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(KeyboardInterrupt):
            once(4)
    once(2)
    assert rows_in(spark, tmp_path) == [0, 1, 2, 3, 9]
    assert {each.name for each in tmp_path.iterdir()} == {"out"}


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_what_is_there_is_left_unless_the_mode_says_so(
    spark: SparkSession, tmp_path: Path, staged: Path, format: str
) -> None:
    write_staged(staged, target(tmp_path, "errorifexists", format), "job-1.w", {})
    write_staged(staged, target(tmp_path, "errorifexists", format), "job-1.w", {})
    write_staged(staged, target(tmp_path, "ignore", format), "job-2.w", {})
    assert rows_in(spark, tmp_path) == [1, 2, 3]
    with pytest.raises(InvalidArgumentError, match="is there already"):
        write_staged(staged, target(tmp_path, "errorifexists", format), "job-3.w", {})


def test_a_delta_table_has_each_write_once(tmp_path: Path, staged: Path) -> None:
    for name in ("job-1.w", "job-1.w", "job-2.w", "job-2.w"):
        write_staged(staged, target(tmp_path, "append", "delta", ("day",)), name, {})
    table = DeltaTable(tmp_path / "out")
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [1, 1, 2, 2, 3, 3]
    assert table.metadata().partition_columns == ["day"]
    write_staged(staged, target(tmp_path, "overwrite", "delta", ("day",)), "job-3.w", {})
    assert DeltaTable(tmp_path / "out").to_pyarrow_table().num_rows == 3


@pytest.mark.parametrize("format", ["csv", "delta"])
def test_run_by_itself_a_program_writes_at_once(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    df = spark.createDataFrame(ROWS)
    verified_write(df, "w", path=str(tmp_path / "out"), format=format, mode="overwrite")
    if format == "delta":
        assert DeltaTable(tmp_path / "out").to_pyarrow_table().num_rows == 3
    else:
        assert spark.read.csv(str(tmp_path / "out")).count() == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": "upsert"}, "mode 'upsert' is none"),
        ({"table": "t"}, "are two places"),
        ({"options": {"partitionOverwriteMode": "dynamic"}}, "would replace a part"),
    ],
)
def test_a_target_that_cannot_be_is_refused(given: dict[str, object], message: str) -> None:
    fields = {
        "format": "parquet",
        "mode": "append",
        "path": "out",
        "table": None,
        "partition_by": (),
        "options": {},
    }
    with pytest.raises(InvalidArgumentError, match=message):
        Target(**{**fields, **given})  # type: ignore[arg-type]


def test_only_of_folders_it_is_known_what_was_written() -> None:
    assert is_once(Target("parquet", "append", "/a/b", None, (), {}))
    assert not is_once(Target("parquet", "append", "s3a://a/b", None, (), {}))
    assert not is_once(Target("parquet", "append", None, "db.t", (), {}))
