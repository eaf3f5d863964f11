"""DataFrames over slices: they follow their binding, and bad copies are told on."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from holdfast.verify.machine import Agreed, Input, Run
from holdfast.verify.process.computing import Binding, open_slices
from holdfast.verify.process.slices import Making, make_slices
from tests.verify.process.witnesses import FolderWitness

SLICES = 2


@pytest.fixture
def witness(tmp_path: Path) -> FolderWitness:
    (tmp_path / "told").mkdir()
    return FolderWitness(tmp_path / "told", replica=3)


def make(df: DataFrame, replica: int, folder: Path, witness: FolderWitness) -> tuple[Agreed, ...]:
    making = Making("job", "hourly", Run(), b"", replica, folder, witness)
    return make_slices(df, SLICES, making, witness)


def inputs(*copies: tuple[Agreed, ...]) -> tuple[Input, ...]:
    """Of the digests that the last copy has."""
    return tuple(
        Input(each[-1].digest, each[-1].rows, sum((copy.holders for copy in each), ()), True)
        for each in zip(*copies, strict=True)
    )


def test_a_bad_copy_is_told_on_and_the_next_one_read(
    spark: SparkSession, tmp_path: Path, witness: FolderWitness
) -> None:
    df = spark.range(1000)
    bad, good = (make(df, replica, tmp_path, witness) for replica in (1, 2))
    path = tmp_path / bad[1].holders[0].path
    path.write_bytes(path.read_bytes()[:-1])
    witness.told()
    binding = Binding(tmp_path, "hourly", inputs(bad, good), witness)
    assert open_slices(spark, binding).agg(F.sum("id")).first()[0] == 499_500
    assert witness.told() == [("hourly", 1, 1, 3)]


def test_no_right_copy_ends_the_query(
    spark: SparkSession, tmp_path: Path, witness: FolderWitness
) -> None:
    wrong, right = (
        make(spark.range(first, first + 1000), 1, tmp_path, witness) for first in (1000, 0)
    )
    swapped = Agreed(right[1].digest, right[1].rows, wrong[1].holders)
    df = open_slices(spark, Binding(tmp_path, "hourly", inputs((right[0], swapped)), witness))
    with pytest.raises(PythonException, match="none of its copies is right"):
        df.count()


def test_spark_does_not_take_slices_for_small(
    spark: SparkSession, tmp_path: Path, witness: FolderWitness
) -> None:
    """It would send them to all executors, however large they are."""
    made = make(spark.range(10), 1, tmp_path, witness)
    df = open_slices(spark, Binding(tmp_path, "hourly", inputs(made), witness))
    assert df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() > 1 << 60
    assert spark.createDataFrame([(1,)], "n int").count() == 1
