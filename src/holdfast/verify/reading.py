"""DataFrames over slices.

Spark's tasks check every piece before they give it out, tell of copies that are not what they
should be, and read on in the next one. How large a slice is they do not know, so that Spark does
not take it for small and send it to all executors.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from holdfast.errors import HoldfastError
from holdfast.protocol.verification import Holder, Input
from holdfast.verify.canonical import spark_schema
from holdfast.verify.slice_files import read_slice

__all__ = ["Accuser", "Binding", "open_slices"]

_FORMAT: Final = "holdfast-slices"

logger = logging.getLogger(__name__)


class Accuser(Protocol):
    """Tells the verifiers of bad copies. It travels to Spark's tasks, so it can be pickled."""

    def broken(self, stage: str, number: int, maker: int) -> None:
        """The copy of this slice that its maker holds has not the digest that it reported."""


@dataclass(frozen=True)
class Binding:
    """The slices of a stage as one replica is to read them."""

    storage: Path
    stage: str
    inputs: tuple[Input, ...]
    accuser: Accuser

    def save(self, path: Path) -> None:
        """It may hold a key: nobody else can read it."""
        path.touch(mode=0o600, exist_ok=False)
        path.write_bytes(pickle.dumps(self))

    @staticmethod
    def load(path: Path) -> Binding:
        binding = pickle.loads(path.read_bytes())
        assert isinstance(binding, Binding)
        return binding

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

        yield from read_slice(self.storage, wanted.digest, wanted.holders, tell)

    def schema(self) -> StructType:
        """The columns, as Spark has them."""
        return spark_schema(next(self.read(0)).schema)


def open_slices(spark: SparkSession, path: Path) -> DataFrame:
    """The rows that the binding binds that is saved there. It must stay as it is."""
    spark.dataSource.register(SliceSource)
    schema = Binding.load(path).schema()
    return spark.read.format(_FORMAT).schema(schema).option("binding", str(path)).load()


class SliceSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def reader(self, schema: StructType) -> SliceReader:
        return SliceReader(Binding.load(Path(self.options["binding"])))


class SliceReader(DataSourceReader):
    def __init__(self, binding: Binding) -> None:
        self.binding = binding

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(len(self.binding.inputs))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for table in self.binding.read(partition.value):
            yield from table.to_batches()
