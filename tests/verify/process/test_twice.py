"""The checker: a stage that depends on chance is shown with the rows that differ."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from holdfast.errors import RefusedWriteError
from holdfast.verify import Job
from holdfast.verify.process.determinism import stable_sum
from holdfast.verify.process.determinism_check import StageCheck, check_job


@pytest.fixture
def job(tmp_path: Path) -> Job:
    rows = range(400)
    table = pa.table(
        {"k": [n % 4 for n in rows], "x": [1e16, 1.0, -1e16, 0.1, 3.0] * 80, "n": rows}
    )
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    job = Job("sums", slices=2, folder=tmp_path)
    job.source("rows", "rows.parquet")

    @job.stage
    def steady(rows: DataFrame) -> DataFrame:
        return rows.groupBy("k").agg(stable_sum("x").alias("x"), F.max("n").alias("n"))

    @job.stage
    def shaky(rows: DataFrame, steady: DataFrame) -> DataFrame:
        firsts = rows.groupBy("k").agg(F.first("n").alias("first"))
        return firsts.join(steady, "k").select("k", "first", "n")

    @job.stage
    def after(shaky: DataFrame) -> DataFrame:
        return shaky.where("k >= 0")

    return job


def test_stages_are_run_twice_from_the_same_rows(spark: SparkSession, job: Job) -> None:
    told: list[StageCheck] = []
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    checks = check_job(spark, job, shown=2, done=told.append)
    assert told == checks
    assert spark.conf.get(name) == before
    steady, shaky, after = checks
    assert (steady.difference, steady.suspects) == (None, ())
    assert shaky.difference is not None
    assert [each.what for each in shaky.suspects] == ["first"]
    for rows in (shaky.difference.first, shaky.difference.second):
        assert 1 <= len(rows) <= 2
        assert all(row.keys() == {"k", "first", "n"} for row in rows)
    assert shaky.difference.first != shaky.difference.second
    assert after.difference is None


def test_a_stage_that_writes_is_refused_as_in_replicas(
    spark: SparkSession, job: Job, tmp_path: Path
) -> None:
    @job.stage
    def written(after: DataFrame) -> DataFrame:
        after.write.parquet(str(tmp_path / "out"))
        return after

    with pytest.raises(RefusedWriteError, match=r"job sums: DataFrameWriter\.parquet writes"):
        check_job(spark, job)
    assert not (tmp_path / "out").exists()
