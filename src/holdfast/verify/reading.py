"""DataFrames over slices.

Spark's tasks check every piece before they give it out, tell of copies that are not what they
should be, and read on in the next one. No data source of Spark's is in it: to plan one takes Spark
three Python processes more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import HoldfastError
from holdfast.protocol.verification import Holder, Input
from holdfast.verify.canonical import spark_schema
from holdfast.verify.messages import decode, encode
from holdfast.verify.slice_files import Storage, read_slice
from holdfast.verify.tasks import messages, settle

__all__ = ["Accuser", "Binding", "open_slices"]

_LOCAL: Final = "spark.sql.execution.arrow.localRelationThreshold"
"""Bytes up to which Spark knows how large a table is that it is given."""

logger = logging.getLogger(__name__)


class Accuser(Protocol):
    """Tells the verifiers of bad copies. It travels to Spark's tasks, so it can be pickled."""

    def broken(self, stage: str, number: int, maker: int) -> None:
        """The copy of this slice that its maker holds has not the digest that it reported."""


@dataclass(frozen=True)
class Binding:
    """The slices of a stage as one replica is to read them."""

    storage: Path | Storage
    stage: str
    inputs: tuple[Input, ...]
    accuser: Accuser

    def read(self, number: int) -> Iterator[pa.Table]:
        """The pieces of a slice, checked."""
        wanted = self.inputs[number]

        def tell(holder: Holder, why: str) -> None:
            logger.warning(
                "stage %s: slice %d of replica %d: %s; reading the next copy",
                self.stage,
                number,
                holder.replica,
                why,
            )
            try:
                self.accuser.broken(self.stage, number, holder.replica)
            except (HoldfastError, OSError) as error:
                logger.warning("stage %s: the verifiers could not be told: %s", self.stage, error)

        yield from read_slice(self.storage, wanted.digest, wanted.rows, wanted.holders, tell)

    def schema(self) -> StructType:
        """The columns, as Spark has them."""
        return spark_schema(next(self.read(0)).schema)


def open_slices(spark: SparkSession, binding: Binding) -> DataFrame:
    """The rows that it binds, a partition for each slice."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for told in batch.column(0).to_pylist():
                for table in binding.read(decode(told, int)):
                    yield from table.to_batches()
        settle()

    return _numbers(spark, len(binding.inputs)).mapInArrow(read, binding.schema())


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    """Messages with 0, 1 and so on, each in a partition of its own.

    Spark must not know how little that is: it would take the slices for small too, and send them to
    all executors.
    """
    batches = [messages([encode(number)]) for number in range(count)]
    before = spark.conf.get(_LOCAL)
    assert before is not None
    spark.conf.set(_LOCAL, "0")
    try:
        return spark.createDataFrame(pa.Table.from_batches(batches))
    finally:
        spark.conf.set(_LOCAL, before)
