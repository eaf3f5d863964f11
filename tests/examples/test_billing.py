"""The example of hourly energy billing, against a recalculation in plain Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.examples import load_example
from harness.verified.oracle import expected_bills, rows_by_bill
from holdfast.pictures import save_picture
from holdfast.verify import Job, load_job
from holdfast.verify.process.determinism_check import check_job

EXAMPLE = Path(__file__).parents[2] / "examples" / "billing"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with little data."""
    copy = tmp_path_factory.mktemp("example") / "billing"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("data"))
    subprocess.run(
        [sys.executable, copy / "generate.py", "--meters", "12", "--days", "2"], check=True
    )
    return copy


def load(path: Path) -> Job:
    job = load_job(path)
    assert isinstance(job, Job)
    return job


def test_bills_are_right(spark: SparkSession, folder: Path) -> None:
    bills = load(folder / "billing.py").run(spark)["bills"].toArrow()
    expected = expected_bills(folder / "data")
    assert rows_by_bill(bills) == expected
    assert len(expected) > 10


def test_python_and_sql_are_the_same_job(spark: SparkSession, folder: Path) -> None:
    python, sql = load(folder / "billing.py"), load(folder / "billing.sql")
    assert python.plan.stages == sql.plan.stages
    ours, theirs = python.run(spark), sql.run(spark)
    for stage in python.stages:
        assert sorted(ours[stage].collect()) == sorted(theirs[stage].collect())


@pytest.mark.parametrize("name", ["billing.py", "billing.sql"])
def test_no_stage_depends_on_chance(spark: SparkSession, folder: Path, name: str) -> None:
    checks = check_job(spark, load(folder / name))
    assert [(each.difference, each.suspects) for each in checks] == [(None, ())] * 3


def test_the_picture_has_every_hour_and_every_bill(spark: SparkSession, folder: Path) -> None:
    example = load_example("billing")
    hours = example.read_hours(folder / "data")
    bills = load(folder / "billing.py").run(spark)["bills"].toPandas()
    assert len(hours) == 48
    assert hours.to_numpy().sum() == pytest.approx(bills["kwh"].sum())
    figure = example.draw(hours, bills)
    assert save_picture(figure, folder / "billing.png").stat().st_size > 20_000
