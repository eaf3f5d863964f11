"""Which files a source has."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from holdfast.errors import InvalidArgumentError
from holdfast.verify.process.sources import make_source

FILES = [
    "readings/day=1/a.parquet",
    "readings/day=2/b.parquet",
    "readings/day=2/_SUCCESS",
    "readings/.hidden/c.parquet",
    "readings/plain.csv",
    "tariffs.csv",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for at, name in enumerate(FILES):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * at)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tariffs.csv", ["tariffs.csv"]),
        ("*.csv", ["tariffs.csv"]),
        ("readings/*/*.parquet", ["readings/day=1/a.parquet", "readings/day=2/b.parquet"]),
        ("readings/day=2", ["readings/day=2/b.parquet"]),
        (
            "readings",
            ["readings/day=1/a.parquet", "readings/day=2/b.parquet", "readings/plain.csv"],
        ),
    ],
)
def test_files_are_found_in_order(folder: Path, path: str, expected: list[str]) -> None:
    found = make_source("s", path, None, None, {}).find(folder)
    assert found == tuple(str(folder / name) for name in expected)
    absolute = make_source("s", str(folder / path), None, None, {})
    assert absolute.find(Path("elsewhere")) == found


@pytest.mark.parametrize("path", ["none.csv", "*.orc", "readings/.hidden"])
def test_no_file_is_an_error(folder: Path, path: str) -> None:
    (folder / "readings/.hidden/c.parquet").unlink()
    with pytest.raises(InvalidArgumentError, match="source s: there is no file"):
        make_source("s", path, None, None, {}).find(folder)


@pytest.mark.parametrize("path", ["s3a://bucket/x", "hdfs://name/x/*.parquet"])
def test_sources_are_files_of_a_file_system(path: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"source s: .* mount it on all hosts, or copy"):
        make_source("s", path, None, None, {})


def test_of_a_delta_table_only_live_files_are_read(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "delta"
    for mode, numbers in (("append", [1, 2]), ("overwrite", [3]), ("append", [4])):
        rows = pa.table({"n": numbers, "day": [f"{number} %" for number in numbers]})
        write_deltalake(table, rows, mode=mode, partition_by=["day"])
    assert len(list(table.rglob("*.parquet"))) == 4
    schema = "n BIGINT, day STRING"
    source = make_source("s", "delta", "delta", schema, {})
    rows = source.open(spark, source.find(tmp_path)).orderBy("n").collect()
    assert [tuple(row) for row in rows] == [(3, "3 %"), (4, "4 %")]
    before = make_source("s", "delta", None, schema, {"versionAsOf": "0"})
    assert before.open(spark, before.find(tmp_path)).count() == 2
    with pytest.raises(InvalidArgumentError, match=r"source s: .* give its schema"):
        make_source("s", "delta", None, None, {}).find(tmp_path)
    for path in ("delta/day=*", "*/*/*.parquet"):
        with pytest.raises(InvalidArgumentError, match=r"is a Delta table, .*name that folder"):
            make_source("s", path, None, schema, {}).find(tmp_path)


def test_a_delta_table_whose_files_are_not_its_rows_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, 2]})
    configuration = {"delta.enableDeletionVectors": "true"}
    write_deltalake(tmp_path / "delta", rows, configuration=configuration)
    with pytest.raises(
        InvalidArgumentError, match=r"has deletionVectors.* so that its files do not"
    ):
        make_source("s", "delta", None, "n BIGINT", {}).find(tmp_path)


@pytest.mark.parametrize(
    ("inner", "message"),
    [(".hoodie/x", "is a Hudi table"), ("metadata/v1.metadata.json", "is an Iceberg table")],
)
def test_other_tables_are_refused(tmp_path: Path, inner: str, message: str) -> None:
    for name in (inner, "data/a.parquet"):
        (tmp_path / "table" / name).parent.mkdir(parents=True)
        (tmp_path / "table" / name).touch()
    with pytest.raises(InvalidArgumentError, match=message):
        make_source("s", "table/data", None, None, {}).find(tmp_path)


class NoSpark:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError("nothing must be read")


def test_files_whose_names_do_not_tell_need_a_format(folder: Path) -> None:
    source = make_source("s", "readings", None, None, {})

    class Spark:
        read = NoSpark()

    with pytest.raises(InvalidArgumentError, match="give its format"):
        source.open(Spark(), source.find(folder))  # type: ignore[arg-type]


def test_sources_are_read_as_they_are_described(spark: SparkSession, tmp_path: Path) -> None:
    for day in (1, 2):
        place = tmp_path / "readings" / f"day={day}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"n": [day * 10]}), place / "part.parquet")
    (tmp_path / "tariffs.csv").write_text("name;cents\nnight;24.15\n")
    readings = make_source("readings", "readings", None, None, {})
    rows = readings.open(spark, readings.find(tmp_path)).orderBy("n").collect()
    assert [(row["n"], row["day"]) for row in rows] == [(10, 1), (20, 2)]
    one = make_source("readings", "readings/day=2/part.parquet", None, None, {})
    assert one.open(spark, one.find(tmp_path)).first().asDict() == {"n": 20, "day": 2}
    tariffs = make_source(
        "tariffs", "*.csv", None, "name STRING, cents DECIMAL(9, 2)", {"header": "true", "sep": ";"}
    )
    assert tuple(tariffs.open(spark, tariffs.find(tmp_path)).first()) == ("night", Decimal("24.15"))
