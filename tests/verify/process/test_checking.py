"""`holdfast verify --check`: what is told of stages that are steady, and of those that are not."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from holdfast.verify import Job, load_job
from holdfast.verify.process.determinism_check import show_checks

JOB = """
CREATE TEMPORARY VIEW readings USING parquet OPTIONS (path 'readings.parquet');
CREATE TEMPORARY VIEW most AS SELECT max(n) AS n FROM readings;
"""
SHAKY = "CREATE TEMPORARY VIEW firsts AS SELECT k, first(n) AS n FROM readings GROUP BY k;"


def write(folder: Path, text: str) -> Job:
    rows = range(400)
    table = pa.table({"k": [n % 4 for n in rows], "n": rows})
    pyarrow.parquet.write_table(table, folder / "readings.parquet")
    (folder / "job.sql").write_text(text)
    job = load_job(folder / "job.sql")
    assert isinstance(job, Job)
    return job


@pytest.mark.parametrize("is_steady", [True, False])
def test_each_stage_is_told_of(spark: SparkSession, tmp_path: Path, is_steady: bool) -> None:
    job = write(tmp_path, JOB if is_steady else JOB + SHAKY)
    screen = StringIO()
    assert show_checks(spark, job, Console(file=screen, width=40)) is is_steady
    first, *rest = screen.getvalue().splitlines()
    assert first == "stage most: is steady"
    assert bool(rest) is not is_steady
    if rest:
        assert rest[0] == "stage firsts: differs"
        assert rest[1].startswith("  only the first time: {'k': ")
        assert any(line.startswith("  only the second time: {'k': ") for line in rest)
        assert rest[-1].startswith("  suspect: first: depends on the order of rows")


PROGRAM = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from holdfast.verify import verified, verified_write

spark = SparkSession.builder.getOrCreate()
rows = spark.range(400).selectExpr(f"id % {sys.argv[1]} AS k", "id AS n")
most = verified(rows.groupBy("k").agg(F.max("n").alias("n")), "most")
verified_write(most.agg(F.first("n").alias("n")), "first", path="nowhere")
spark.stop()
"""


def test_a_program_is_run_twice(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    screen = StringIO()
    assert not show_checks(spark, load_job(file), Console(file=screen, width=40), ["4"])
    first, second, *_ = screen.getvalue().splitlines()
    assert (first, second) == ("stage most: is steady", "stage first: differs")
    assert not (tmp_path / "nowhere").exists()
    assert spark.range(3).count() == 3
