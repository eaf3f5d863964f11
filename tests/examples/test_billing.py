"""The example of hourly energy billing, against a recalculation in plain Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from holdfast.verify import Job, load_job
from holdfast.verify.twice import check_job
from tests.spark.conftest import spark as spark

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


def recalculate(data: Path) -> dict[tuple[str, date], dict[str, Any]]:
    readings: dict[tuple[str, datetime], float] = {}
    for path in sorted((data / "readings").iterdir()):
        for row in pyarrow.parquet.read_table(path).to_pylist():
            key = (row["meter"], row["at"])
            readings[key] = max(row["wh"], readings.get(key, 0.0))
    hours: dict[tuple[str, datetime], list[float]] = defaultdict(list)
    for (meter, at), wh in readings.items():
        hours[meter, at.replace(minute=0)].append(wh)
    tariffs = pyarrow.csv.read_csv(data / "tariffs.csv").to_pylist()
    bills: dict[tuple[str, date], dict[str, Any]] = {}
    for contract in pyarrow.csv.read_csv(data / "contracts.csv").to_pylist():
        for (meter, hour), values in hours.items():
            if meter != contract["meter"]:
                continue
            wh = sum(sorted(values))
            (price,) = [
                Decimal(str(each["cents_per_kwh"])).quantize(Decimal("0.01"))
                for each in tariffs
                if each["tariff"] == contract["tariff"]
                and each["from_hour"] <= hour.hour <= each["to_hour"]
            ]
            exact = Decimal(repr(wh)).quantize(Decimal("0.001"), ROUND_HALF_UP)
            cents = (exact / 1000 * price).quantize(Decimal("0.000001"), ROUND_HALF_UP)
            bill = bills.setdefault(
                (contract["customer"], hour.date()), {"wh": [], "cents": [], "readings": 0}
            )
            bill["wh"].append(wh)
            bill["cents"].append((cents, -hour.timestamp(), hour))
            bill["readings"] += len(values)
    return bills


def test_bills_are_right(spark: SparkSession, folder: Path) -> None:
    bills = load(folder / "billing.py").run(spark)["bills"].collect()
    expected = recalculate(folder / "data")
    assert len(bills) == len(expected) > 10
    for bill in bills:
        wanted = expected[bill["customer"], bill["day"]]
        assert bill["kwh"] == sum(sorted(wanted["wh"])) / 1000
        total = sum(cents for cents, _, _ in wanted["cents"])
        assert bill["cents"] == total.quantize(Decimal("0.01"), ROUND_HALF_UP)
        assert bill["dearest_hour"].replace(tzinfo=UTC) == max(wanted["cents"])[2]
        assert bill["readings"] == wanted["readings"]


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
