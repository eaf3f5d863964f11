"""Files that code reads: checked at each read, wherever the rows go from there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import InvalidArgumentError
from holdfast.verify import Job
from holdfast.verify.process.computing import define_job
from holdfast.verify.process.pinned_files import ChangedFileError, PinnedFiles, pin_files
from holdfast.verify.process.reads import Reads, files_of, reads_checked, reads_of_job
from holdfast.verify.process.submission import pin_sources
from tests.verify.process.fleet import Fleet

WAYS: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "plain": lambda spark, path: spark.read.parquet(path),
    "cached": lambda spark, path: spark.read.parquet(path).cache().where("n > 0"),
    "collected": lambda spark, path: spark.createDataFrame(spark.read.parquet(path).collect()),
    "of an RDD": lambda spark, path: spark.read.load(path).rdd.toDF(),
    "in a subquery": lambda spark, path: spark.sql(
        f"SELECT * FROM range(9) WHERE id < (SELECT max(n) FROM parquet.`{path}`)"
    ),
    "of a view": lambda spark, path: _view(spark, path),
}


def _view(spark: SparkSession, path: str) -> DataFrame:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW looked USING parquet OPTIONS (path '{path}')")
    return spark.table("looked")


def make(path: Path, rows: int = 3) -> Path:
    pq.write_table(pa.table({"n": range(rows)}), path)
    return path


def reads_of(*listed: Path) -> Reads:
    files = pin_files(map(str, listed))
    return Reads("job.py", "of the program", files, PinnedFiles(), "SOURCES does not list")


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_is_not_listed_is_not_read(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    reads = reads_of(make(tmp_path / "a.parquet"))
    other = make(tmp_path / "b.parquet")
    with reads_checked(reads):
        with pytest.raises(InvalidArgumentError, match=r"reads /.*b\.parquet, which SOURCES"):
            WAYS[way](spark, str(other))
        with pytest.raises(InvalidArgumentError, match=r"reads /.*b\.parquet, which SOURCES"):
            reads.check()


def test_a_file_is_known_however_its_path_is_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "the data").mkdir()
    make(tmp_path / "the data" / "50% a#1.parquet")
    monkeypatch.chdir(tmp_path)
    job = Job("sums", slices=2, folder=Path("jobs"))
    job.source("rows", "../the data/*.parquet")
    job.stage(name="all", inputs=["rows"])(lambda rows: rows)
    fleet = Fleet(spark, tmp_path, job.plan)
    files, pinned = pin_sources(job), PinnedFiles()
    reads = reads_of_job("sums.py", files, pinned)
    for computer in fleet.computers.values():
        define_job(computer, job, files, pinned, reads)
    with reads_checked(reads):
        fleet.run()
    assert sorted(row["n"] for row in fleet.agreed("all").to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_was_changed_is_not_read(spark: SparkSession, tmp_path: Path, way: str) -> None:
    path = make(tmp_path / "a.parquet")
    reads = reads_of(path)
    make(path, 4)
    with reads_checked(reads), pytest.raises(ChangedFileError, match=r"a\.parquet has"):
        WAYS[way](spark, str(path))


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_is_changed_after_it_was_read_is_found(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    path = make(tmp_path / "a.parquet")
    reads = reads_of(path)
    with reads_checked(reads):
        df = WAYS[way](spark, str(path))
        reads.check(df)
        make(tmp_path / "later", 4).rename(path)
        with pytest.raises(ChangedFileError, match=r"a\.parquet (has|was written)"):
            reads.check(df)
    spark.catalog.clearCache()


@pytest.mark.parametrize("read", ["textFile", "wholeTextFiles", "binaryFiles", "pickleFile"])
def test_rdds_are_not_read_from_files(spark: SparkSession, tmp_path: Path, read: str) -> None:
    reads = reads_of(make(tmp_path / "a.parquet"))
    with reads_checked(reads), pytest.raises(InvalidArgumentError, match=f"SparkContext.{read}"):
        getattr(spark.sparkContext, read)(str(tmp_path))
    assert spark.sparkContext.textFile(str(tmp_path)).count() > 0


def test_plans_name_files_whatever_the_version_of_their_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = make(tmp_path / "a.parquet")
    name = "spark.sql.sources.useV1SourceList"
    before = spark.conf.get(name)
    spark.conf.set(name, "")
    try:
        assert files_of(spark.read.parquet(str(path)).cache()) == [path.as_uri()]
    finally:
        spark.conf.set(name, str(before))
        spark.catalog.clearCache()


STAGES: dict[str, Callable[[DataFrame, str], Any]] = {
    "DataFrame": lambda rows, path: rows.unionAll(rows.sparkSession.read.parquet(path)),
    "cached": lambda rows, path: rows.unionAll(rows.sparkSession.read.parquet(path).cache()),
    "SQL": lambda rows, path: rows.sparkSession.sql(f"SELECT n FROM parquet.`{path}`"),
}


@pytest.mark.parametrize("way", STAGES)
def test_a_stage_of_a_job_reads_its_sources_only(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    make(tmp_path / "rows.parquet")
    other = make(tmp_path / "other.parquet")
    job = Job("sums", slices=2, folder=tmp_path)
    job.source("rows", "rows.parquet")
    job.stage(name="all", inputs=["rows"])(lambda rows: STAGES[way](rows, str(other)))
    fleet = Fleet(spark, tmp_path, job.plan)
    files, pinned = pin_sources(job), PinnedFiles()
    reads = reads_of_job("sums.py", files, pinned)
    for computer in fleet.computers.values():
        define_job(computer, job, files, pinned, reads)
    with (
        reads_checked(reads),
        pytest.raises(InvalidArgumentError, match=r"sums\.py: reads /.*other\.parquet, which no"),
    ):
        fleet.run()
    assert not list((tmp_path / "told").iterdir()), "nothing was reported"
