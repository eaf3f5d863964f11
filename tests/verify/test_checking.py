"""`holdfast verify --check`: what is told of stages that are steady, and of those that are not."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from holdfast.errors import InvalidArgumentError
from holdfast.verify import Job, load_job
from holdfast.verify.checking import check_file, show_checks

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


def test_of_a_program_it_is_said_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text('from holdfast.verify import verified\nverified(None, "a")\n')
    with pytest.raises(InvalidArgumentError, match=r"is a program.*as a Job or in SQL"):
        check_file(file, Console(file=StringIO()))
