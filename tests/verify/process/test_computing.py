"""Whole replicas on Spark: whoever goes wrong, what is agreed upon is what a clean run gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from harness.waiting import wait_for
from holdfast.verify import Job
from holdfast.verify.machine import JobState, Kind, Mode
from tests.verify.process.fleet import Fleet


def lie(df: DataFrame) -> DataFrame:
    return df.withColumn("wh", F.col("wh") + 1)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    readings = pa.table({"meter": [n % 7 for n in range(300)], "wh": range(300)})
    prices = pa.table({"meter": range(7), "price": [3, 1, 4, 1, 5, 9, 2]})
    pa.parquet.write_table(readings, tmp_path / "readings.parquet")
    pa.parquet.write_table(prices, tmp_path / "prices.parquet")
    job = Job("bills", slices=2, folder=tmp_path)
    job.source("readings", "readings.parquet")
    job.source("prices", "prices.parquet")

    @job.stage
    def sums(readings: DataFrame) -> DataFrame:
        return readings.groupBy("meter", (F.col("wh") % 2).alias("half")).agg(
            F.sum("wh").alias("wh")
        )

    @job.stage
    def charges(sums: DataFrame, prices: DataFrame) -> DataFrame:
        charge = (F.col("wh") * F.col("price")).alias("charge")
        return sums.join(prices, "meter").select("meter", "half", "wh", charge)

    @job.stage
    def bills(charges: DataFrame) -> DataFrame:
        return charges.groupBy("meter").agg(F.sum("wh").alias("wh"), F.sum("charge").alias("sum"))

    return job


def expected(spark: SparkSession, job: Job) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in job.run(spark)["bills"].collect()), key=str)


def found(fleet: Fleet) -> list[dict[str, Any]]:
    return sorted(fleet.agreed("bills").to_pylist(), key=str)


def named(fleet: Fleet, kind: Kind) -> set[tuple[int, str]]:
    """Which replicas were found doing this, and in which stages."""
    findings = fleet.verifiers.verifier.findings
    return {(each.replica, each.stage) for each in findings if each.kind is kind}


def test_a_clean_run_raises_no_alarm(spark: SparkSession, job: Job, tmp_path: Path) -> None:
    fleet = Fleet(spark, tmp_path, job.plan, mode=Mode.NON_BLOCKING)
    fleet.define(job)
    assert fleet.run().state is JobState.DONE
    assert found(fleet) == expected(spark, job)
    assert [
        each for each in fleet.verifiers.verifier.findings if each.kind != Kind.SHARED_HOST
    ] == []


def test_what_is_stale_is_ended_in_the_midst_of_it(spark: SparkSession, tmp_path: Path) -> None:
    """As a replica's watch does it: the tasks end, and the session goes on."""
    begun = tmp_path / "begun"

    def stay(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun.touch()
        Event().wait(600)
        yield from batches

    def end() -> None:
        wait_for("a task", begun.exists, 120)
        spark.sparkContext.cancelAllJobs()

    ending = Thread(target=end)
    ending.start()
    with pytest.raises(Py4JJavaError, match="JOB_CANCELLED"):
        spark.range(9).mapInArrow(stay, "id long").collect()
    ending.join()
    assert spark.range(9).count() == 9


def test_liars_in_two_stages_in_a_row_are_named_and_fed_by_others(
    spark: SparkSession, job: Job, tmp_path: Path
) -> None:
    fleet = Fleet(spark, tmp_path, job.plan, mode=Mode.HYBRID)
    fleet.define(job)
    fleet.corrupt(1, "sums", lie)
    fleet.corrupt(2, "charges", lie)
    fleet.run()
    assert found(fleet) == expected(spark, job)
    assert named(fleet, Kind.OUTVOTED) == {(1, "sums"), (2, "charges")}
    last = [each for each in fleet.events(1, "starts") if each["stage"] == "charges"][-1]
    for read in last["inputs"]["sums"]:
        assert read["verified"]
        assert read["replica"] != 1
        assert read["path"].startswith(f"job/{read['replica']}/sums/0-0/")


def test_files_that_were_changed_after_they_were_reported_are_not_used(
    spark: SparkSession, job: Job, tmp_path: Path
) -> None:
    fleet = Fleet(spark, tmp_path, job.plan, mode=Mode.BLOCKING)
    fleet.define(job)
    fleet.corrupt(1, "sums", lie)

    def spoil(df: DataFrame) -> DataFrame:
        """Replica 2 and 3 say the right thing and then keep something else."""
        for maker in (2, 3):
            for path in (fleet.storage / "job" / str(maker) / "sums").rglob("*.slice"):
                path.write_bytes(path.read_bytes()[::-1])
        return df

    fleet.corrupt(1, "charges", spoil)
    fleet.run()
    assert found(fleet) == expected(spark, job)
    assert named(fleet, Kind.BROKEN_DATA) == {(2, "sums"), (3, "sums")}
