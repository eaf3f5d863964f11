"""Small streaming queries for tests: files in, rows out, batch by batch."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

_NUMBERS = count()


def write_batches(folder: Path, schema: StructType, batches: list[list[dict[str, Any]]]) -> None:
    """One file for each batch, after those that are there."""
    folder.mkdir(exist_ok=True)
    first = len(list(folder.iterdir()))
    arrow = to_arrow_schema(schema, timezone="UTC")
    for number, batch in enumerate(batches, first):
        file = folder / f"{number:05d}.parquet"
        pq.write_table(pa.Table.from_pylist(batch, schema=arrow), file)
        # Spark takes files by their time.
        os.utime(file, (1_700_000_000 + number,) * 2)


def read_batches(spark: SparkSession, folder: Path, schema: StructType) -> DataFrame:
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(answers: DataFrame, checkpoint: Path, mode: str = "append") -> tuple[list[Row], Any]:
    """All rows that a query answers until its input is used up, and the query."""
    rows: list[Row] = []

    def collect(batch: DataFrame, number: int) -> None:
        rows.extend(batch.collect())

    query: StreamingQuery = (
        answers.writeStream.foreachBatch(collect)
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .queryName(f"test-{next(_NUMBERS)}")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    return rows, query
