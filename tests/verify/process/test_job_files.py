"""Files that describe jobs, without Spark: what they mean and what is wrong with others."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.verify import Job, Program, load_job

PYTHON = """
from holdfast.verify import Job
job = Job("billing")
job.source("readings", "readings.parquet")

@job.stage
def hourly(readings):
    return readings
"""

SQL = """
-- What the meters send; a `;` in a comment is none.
CREATE TEMPORARY VIEW readings (meter STRING, wh DECIMAL(10, 2)) USING csv
OPTIONS (path 'readings/*.csv', header 'true', 'sep' = ';');

CREATE OR REPLACE TEMP VIEW Hourly AS
SELECT meter, sum(wh) AS wh /* not from bills; */
FROM readings WHERE meter <> 'bills; or so' GROUP BY meter;

create view bills as SELECT * FROM `hourly` JOIN readings USING (meter)
"""

PROGRAM = """
from pyspark.sql import SparkSession
from holdfast.verify import verified

raise RuntimeError("must not be run to be loaded")
readings = verified(spark.read.parquet("readings"), "readings")
bills = verified(
    verified(readings.groupBy("meter").sum("wh"), name="sums").where("wh > 0"),
    "bills",
)
"""


def write(folder: Path, text: str, name: str = "billing.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_python_file_makes_a_job(tmp_path: Path) -> None:
    job = load_job(write(tmp_path, PYTHON))
    assert isinstance(job, Job)
    assert (job.name, list(job.stages), job.folder) == ("billing", ["hourly"], tmp_path)


def test_the_views_of_a_sql_file_are_stages(tmp_path: Path) -> None:
    job = load_job(write(tmp_path, SQL, "billing.sql"))
    assert isinstance(job, Job)
    assert job.name == "billing"
    source = job.sources["readings"]
    assert (source.path, source.format) == ("readings/*.csv", "csv")
    assert source.schema == "meter STRING, wh DECIMAL(10, 2)"
    assert dict(source.options) == {"header": "true", "sep": ";"}
    assert {name: stage.inputs for name, stage in job.stages.items()} == {
        "Hourly": ("readings",),
        "bills": ("Hourly", "readings"),
    }


def test_the_boundaries_of_a_program_are_found_without_running_it(tmp_path: Path) -> None:
    program = load_job(write(tmp_path, PROGRAM))
    assert isinstance(program, Program)
    assert program.name == "billing"
    assert program.plan.stages == {
        "readings": (),
        "sums": ("readings",),
        "bills": ("readings", "sums"),
    }


def test_a_program_may_list_its_boundaries(tmp_path: Path) -> None:
    text = (
        'BOUNDARIES = ["round-0", "round-1"]\n'
        "for n in range(2):\n"
        '    ranks = verified(step(ranks), f"round-{n}")\n'
    )
    program = load_job(write(tmp_path, text))
    assert isinstance(program, Program)
    assert program.boundaries == ("round-0", "round-1")


def test_what_a_program_writes_is_read_by_none_of_its_boundaries(tmp_path: Path) -> None:
    text = (
        'a = verified(df, "a")\nverified_write(a, "w", path="x")\n'
        'b = verified(a, "b")\nverified_write(df=b, name="v", table="t")\n'
    )
    program = load_job(write(tmp_path, text))
    assert isinstance(program, Program)
    assert program.writes == ("w", "v")
    assert program.plan.stages == {
        "a": (),
        "w": ("a",),
        "w.target": ("a",),
        "b": ("a",),
        "v": ("a", "b"),
        "v.target": ("a", "b"),
    }
    assert set(program.plan.outputs) == {"w", "w.target", "v", "v.target"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("job.py", "x = (", r"line 1: .*never closed"),
        ("job.py", "x = 1", "makes no Job and marks no boundary"),
        ("job.py", "from holdfast.verify import Job\nJob('a')", "makes 0 jobs"),
        ("job.py", "from holdfast.verify import Job\na, b = Job('a'), Job('b')", "makes 2 jobs"),
        ("job.py", "from holdfast.verify import Job\njob = Job('a')", "no stages"),
        ("job.py", "verified(df, name)", "line 1: the name of this boundary"),
        ("job.py", "verified(df)", "line 1: the name of this boundary"),
        ("job.py", "verified(df, 'a')\nverified(df, 'a')", "two boundaries are called 'a'"),
        ("job.py", "verified(df, 'a/b')", "'a/b' is no name"),
        ("job.py", "BOUNDARIES = names()\nverified(df, 'a')", "line 1: BOUNDARIES is no list"),
        ("job.toml", "", "neither Python nor SQL"),
        ("job.sql", "", "has no CREATE TEMPORARY VIEW"),
        ("job.sql", "\nSELECT 1;", r"line 2: 'SELECT 1' makes no stage"),
        ("job.sql", "CREATE VIEW a AS SELECT 1;\n\nCREATE VIEW a AS SELECT 2", "line 3: .*already"),
        ("job.sql", "CREATE TEMP VIEW a USING csv OPTIONS (x)", "line 1: cannot read the options"),
        ("job.sql", "CREATE TEMP VIEW a USING csv OPTIONS (x 'y')", "line 1: .* no path"),
    ],
)
def test_mistakes_are_named_with_their_lines(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        load_job(write(tmp_path, text, name))
    assert str(tmp_path / name) in str(caught.value) or "job a" in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"none\.py: cannot be read \(No such file"):
        load_job(tmp_path / "none.py")


def test_jobs_are_loaded_without_spark(tmp_path: Path) -> None:
    path = write(tmp_path, PYTHON)
    script = (
        f"import sys, holdfast.verify as v; v.load_job({str(path)!r});"
        "sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_threads_load_jobs_at_once(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(PYTHON)
    before = gc.get_threshold()

    def let_others_go_on(*_: object) -> None:
        time.sleep(0)

    gc.callbacks.append(let_others_go_on)
    gc.set_threshold(10)
    try:
        with ThreadPoolExecutor(4) as pool:
            jobs = list(pool.map(load_job, [path] * 200))
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(let_others_go_on)
    assert {job.name for job in jobs} == {"billing"}
