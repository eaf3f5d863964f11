"""Slices: equal rows make equal slices, however Spark comes to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from holdfast.errors import InvalidArgumentError
from holdfast.verify.machine import Agreed, Input, Report, Run
from holdfast.verify.process.canonical import canonical_schema
from holdfast.verify.process.computing import Binding, open_slices
from holdfast.verify.process.slices import Making, make_slices
from tests.verify.process.witnesses import FolderWitness

ROWS = 5000


@dataclass
class Shop:
    """Makes slices in a folder and reads them back."""

    spark: SparkSession
    folder: Path
    witness: FolderWitness
    runs: count

    def make(self, df: DataFrame, slices: int = 4) -> tuple[Agreed, ...]:
        making = Making(
            job="job",
            stage="hourly",
            run=Run(0, next(self.runs)),
            basis=b"basis",
            replica=1,
            storage=self.folder / "storage",
            reporter=self.witness,
        )
        return make_slices(df, slices, making, self.witness)

    def read(self, slices: tuple[Agreed, ...]) -> DataFrame:
        inputs = tuple(Input(each.digest, each.rows, each.holders, True) for each in slices)
        binding = Binding(self.folder / "storage", "hourly", inputs, self.witness)
        return open_slices(self.spark, binding)


@dataclass(frozen=True)
class FailsAfterReporting(FolderWitness):
    """The task that has brought the report of slice 1 fails, once: another attempt brings it again,
    as speculation does."""

    fails: Path = Path()

    def report(self, report: Report) -> None:
        super().report(report)
        if report.slice == 1 and not self.fails.exists():
            self.fails.touch()
            raise RuntimeError("once")


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    (tmp_path / "told").mkdir()
    return Shop(spark, tmp_path, FolderWitness(tmp_path / "told"), count())


def digests(slices: tuple[Agreed, ...]) -> list[bytes]:
    return [each.digest for each in slices]


def meters(spark: SparkSession) -> DataFrame:
    return spark.range(ROWS).select(
        F.concat(F.lit("meter "), F.col("id") % 70).alias("meter"),
        (F.col("id") % 1000 / 7).alias("wh"),
        F.when(F.col("id") % 11 > 0, F.col("id") % 13).alias("maybe"),
    )


OTHER_WAYS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "one partition": lambda df: df.coalesce(1),
    "many partitions": lambda df: df.repartition(23),
    "another order": lambda df: df.orderBy(F.desc("wh"), "maybe"),
    "by a key": lambda df: df.repartition(5, "meter").sortWithinPartitions("maybe"),
    "in two parts": lambda df: df.where("wh > 50").union(df.where("wh <= 50")),
    "not nullable": lambda df: df.select(
        F.coalesce("meter", F.lit("")).alias("meter"), "wh", "maybe"
    ),
}


def test_equal_rows_make_equal_slices(shop: Shop) -> None:
    df = meters(shop.spark)
    first = digests(shop.make(df))
    assert {
        way: digests(shop.make(change(df))) for way, change in OTHER_WAYS.items()
    } == dict.fromkeys(OTHER_WAYS, first)


def test_plans_do_not_matter(shop: Shop) -> None:
    df = meters(shop.spark).groupBy("meter").agg(F.max("wh").alias("wh"), F.count("*").alias("n"))
    first = digests(shop.make(df))
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "7"}
    before = {name: shop.spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        shop.spark.conf.set(name, value)
    try:
        assert digests(shop.make(df)) == first
    finally:
        for name, value in before.items():
            shop.spark.conf.set(name, value)


def test_retries_do_not_matter(shop: Shop) -> None:
    """Neither of a task that computes the stage, nor of one that has made its slice already."""
    failed = shop.folder / "failed"

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if not failed.exists():
            failed.touch()
            raise RuntimeError("once")

    df = meters(shop.spark)
    clean = shop.make(df)
    shop.witness.told()
    assert digests(shop.make(df.mapInArrow(fail_once, df.schema))) == digests(clean)
    assert failed.exists()
    shop.witness.told()
    witness = FailsAfterReporting(shop.witness.folder, fails=shop.folder / "reported")
    shop = replace(shop, witness=witness)
    assert digests(shop.make(df)) == digests(clean)
    told = sorted(shop.witness.told(), key=lambda report: report.slice)
    assert [each.slice for each in told] == [0, 1, 1, 2, 3]
    twice = told[1:3]
    assert len({each.digest for each in twice}) == 1
    assert len({each.path for each in twice}) == 2


def test_another_value_makes_another_slice(shop: Shop) -> None:
    df = meters(shop.spark)
    changed = df.withColumn("wh", F.when(F.col("wh") == 0, 0.5).otherwise(F.col("wh")))
    assert digests(shop.make(changed)) != digests(shop.make(df))
    assert digests(shop.make(df.limit(ROWS - 1))) != digests(shop.make(df))


def test_what_is_read_is_what_was_made(shop: Shop) -> None:
    df = meters(shop.spark)
    slices = shop.make(df)
    assert sum(each.rows for each in slices) == ROWS
    assert min(each.rows for each in slices) > ROWS / 8
    back = shop.read(slices)
    assert back.schema.simpleString() == df.schema.simpleString()
    assert back.exceptAll(df).union(df.exceptAll(back)).count() == 0


@pytest.mark.parametrize(
    ("query", "slices"),
    [
        ("SELECT 1 AS one, 'a' AS letter", 1),
        ("SELECT 1 AS one, 'a' AS letter FROM range(50)", 4),
        ("SELECT id FROM range(10) WHERE id < 0", 1),
        ("SELECT id, count(*) AS n FROM range(10) WHERE id % 20 = 11 GROUP BY id", 4),
        ("SELECT 1 AS one WHERE false", 4),
    ],
)
def test_few_rows_make_all_slices(shop: Shop, query: str, slices: int) -> None:
    df = shop.spark.sql(query)
    made = shop.make(df, slices)
    assert len(made) == slices
    assert sum(each.rows for each in made) == df.count()
    assert sorted(shop.read(made).collect()) == sorted(df.collect())
    assert digests(shop.make(df.repartition(3), slices)) == digests(made)


TYPES = """
    SELECT id, cast(id AS tinyint) AS b, cast(id AS smallint) AS s, cast(id AS int) AS i,
        id % 2 = 0 AS bool, cast(id AS float) / 3 AS f, id / 3D AS d,
        cast(id AS decimal(20, 4)) / 7 AS dec, cast(id AS string) AS text,
        cast(cast(id AS string) AS binary) AS bin,
        date_add(date'2026-01-01', cast(id AS int)) AS day,
        timestamp_micros(id * 1234567) AS ts,
        cast(timestamp_micros(id * 1234567) AS timestamp_ntz) AS ntz,
        make_dt_interval(0, 0, 0, id) AS span,
        array(id / 3D, NULL, id) AS list,
        named_struct('x', id, 'deep', array(named_struct('y', id / 3D, 'at', timestamp_micros(id))))
            AS record,
        if(id % 3 = 0, NULL, named_struct('z', cast(id AS float))) AS maybe
    FROM range(100)
"""


def test_columns_of_all_types_come_back(shop: Shop) -> None:
    df = shop.spark.sql(TYPES)
    slices = shop.make(df)
    back = shop.read(slices)
    assert back.schema.simpleString() == df.schema.simpleString()
    assert back.orderBy("id").collect() == df.orderBy("id").collect()
    assert digests(shop.make(back)) == digests(slices)


def test_the_time_zone_of_a_session_does_not_matter(shop: Shop) -> None:
    df = shop.spark.sql(
        "SELECT timestamp_micros(id) AS at, array(timestamp_micros(id)) AS all FROM range(9)"
    )
    first = digests(shop.make(df))
    shop.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert digests(shop.make(df)) == first
    finally:
        shop.spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_nan_has_one_form_and_zero_no_sign(shop: Shop) -> None:
    def make(zero: str, nan: str) -> list[bytes]:
        return digests(
            shop.make(
                shop.spark.sql(
                    f"SELECT {zero} AS z, cast({nan} AS float) AS n, array({zero}, {nan}) AS list, "
                    f"named_struct('in', named_struct('z', {zero}, 'n', {nan})) AS deep"
                )
            )
        )

    assert make("-0D", "-double('nan')") == make("0D", "double('nan')")


@pytest.mark.parametrize(
    ("column", "remedy"),
    [
        ("map('a', id)", "array_sort"),
        ("array(map('a', id))", "array_sort"),
        ("named_struct('m', map('a', id))", "array_sort"),
        ("parse_json('1')", "to_json"),
        ("NULL", "cast it to one"),
        ("make_ym_interval(1, 2)", "number of months"),
        ("collate('a', 'UTF8_LCASE')", "UTF8_BINARY"),
    ],
)
def test_types_without_one_form_are_refused(spark: SparkSession, column: str, remedy: str) -> None:
    df = spark.sql(f"SELECT id, {column} AS odd FROM range(3)")
    with pytest.raises(InvalidArgumentError, match=f"stage hourly: column 'odd' .*{remedy}"):
        canonical_schema("hourly", df)


def test_columns_must_have_names_of_their_own(spark: SparkSession) -> None:
    df = spark.range(3)
    with pytest.raises(InvalidArgumentError, match="two columns called 'id'"):
        canonical_schema("hourly", df.select("id", "id"))
    with pytest.raises(InvalidArgumentError, match="no columns"):
        canonical_schema("hourly", df.select())


def test_names_of_columns_may_be_anything(shop: Shop) -> None:
    df = shop.spark.range(20).select(F.col("id").alias("a.b`c d"), F.col("id").alias("A"))
    back = shop.read(shop.make(df))
    assert back.columns == df.columns
    assert sorted(back.collect()) == sorted(df.collect())


def test_text_that_is_no_utf8_is_refused_with_the_remedy(shop: Shop) -> None:
    df = shop.spark.sql("SELECT cast(X'ff' AS string) AS text")
    with pytest.raises(PythonException, match="make_valid_utf8"):
        shop.make(df)


def test_tasks_report_each_slice(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    slices = shop.make(meters(shop.spark))
    reports = sorted(shop.witness.told(), key=lambda report: report.slice)
    assert [report.slice for report in reports] == [0, 1, 2, 3]
    for report, made in zip(reports, slices, strict=True):
        assert (report.job, report.stage, report.replica) == ("job", "hourly", 1)
        assert (report.run, report.basis, report.seq) == (Run(0, 0), b"basis", None)
        (holder,) = made.holders
        assert (report.digest, report.rows, report.path, report.host) == (
            made.digest,
            made.rows,
            holder.path,
            holder.host,
        )
        assert holder.path.startswith("job/1/hourly/0-0/")
        assert (shop.folder / "storage" / holder.path).is_file()


def test_what_tasks_cannot_bring_is_reported_in_the_end(shop: Shop) -> None:
    shop.witness = FolderWitness(shop.witness.folder, is_deaf_in_tasks=True)
    slices = shop.make(meters(shop.spark))
    reports = shop.witness.told()
    assert {report.digest for report in reports} == set(digests(slices))


def test_an_attempt_that_fails_leaves_no_slice(shop: Shop) -> None:
    df = shop.spark.sql(
        "SELECT id, if(id = 4999, raise_error('broken'), 'x') AS x FROM range(5000)"
    )
    with pytest.raises(Exception, match="broken"):
        shop.make(df)
    left = [path for path in (shop.folder / "storage").rglob("*") if path.suffix == ".part"]
    assert left == []
