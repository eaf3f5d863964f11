"""Rows of an entry as files that Spark reads by itself, where its tasks run in the node's own JVM.

Steps that look at each row alone need nothing but the rows and their places, so they are spared the
way through Python workers: of the gate source the query takes only which entries a batch has, and
asks here for what comes of their rows. The journal stays what decides. Files are made of an entry
when its batch is run, and made again if that is run again.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.spark.stages.compile import Compiled
from holdfast.spark.stages.entries import Entry
from holdfast.spark.stages.pieces import PieceReader, Wanted, divided
from holdfast.spark.stages.rows import ENTRY, PLACE, row_columns
from holdfast.spark.stages.steps import apply_to_rows

__all__ = ["Handover", "is_possible"]

GROUP_ROWS: Final = 2**17
"""In one group of a file, about."""


def is_possible(spark: SparkSession, compiled: Compiled) -> bool:
    """Whether tasks see the node's files, and no step needs more than Spark."""
    master = str(spark.sparkContext.master)
    return compiled.row_steps is not None and (master == "local" or master.startswith("local["))


class Handover:
    """Carries out the steps of a stage on the rows of an entry."""

    def __init__(self, compiled: Compiled, folder: Path, reader: PieceReader, tasks: int) -> None:
        """`folder`: for files, which are nobody else's. `tasks`: that can run at a time."""
        assert compiled.row_steps is not None
        self._steps = compiled.row_steps
        self._folder = folder
        self._reader = reader
        own = compiled.inputs[0]
        self._names = [PLACE, *own.names]
        # Numbers in the place of names, in which case would not count.
        numbered = [StructField(f"c{at + 1}", field.dataType) for at, field in enumerate(own)]
        self._schema = StructType([StructField("c0", LongType()), *numbered])
        self._arrow = to_arrow_schema(self._schema, timezone="UTC")
        self._tasks = tasks

    def rows(self, spark: SparkSession, entry: Entry) -> pa.Table:
        """What comes of the rows of an entry: where they come from, and the stream's columns."""
        wanted = [Wanted(entry.number, at, piece) for at, piece in enumerate(entry.pieces)]
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        parts = divided(wanted, self._tasks)
        paths = [str(self._folder / f"{at}.parquet") for at in range(len(parts))]
        with ThreadPoolExecutor(len(parts)) as threads:
            list(threads.map(self._write, parts, paths))
        # The files have all days as they are, those before 1582 too.
        reader = spark.read.option("datetimeRebaseMode", "CORRECTED")
        made = self._through(reader.schema(self._schema).parquet(*paths)).toArrow()
        shutil.rmtree(self._folder, ignore_errors=True)
        return made.add_column(0, ENTRY, pa.array(np.full(len(made), entry.number)))

    def _through(self, df: DataFrame) -> DataFrame:
        df = df.select(*(F.col(f"c{at}").alias(name) for at, name in enumerate(self._names)))
        for step in self._steps:
            df = apply_to_rows(df, step)
        return df

    def _write(self, wanted: Sequence[Wanted], path: str) -> None:
        with pq.ParquetWriter(
            path, self._arrow, compression="none", use_dictionary=False, write_statistics=False
        ) as file:
            waiting: list[pa.Table] = []
            for each in wanted:
                waiting.append(self._table(each))
                if sum(map(len, waiting)) >= GROUP_ROWS or each is wanted[-1]:
                    file.write_table(pa.concat_tables(waiting))
                    waiting = []

    def _table(self, wanted: Wanted) -> pa.Table:
        piece, table = wanted.piece, self._reader.read(wanted)
        places = row_columns(wanted.entry, piece.input, piece.bucket, len(table))[PLACE]
        columns = [places, *table.columns]
        cast = [column.cast(each.type) for column, each in zip(columns, self._arrow, strict=True)]
        return pa.table(cast, schema=self._arrow)
