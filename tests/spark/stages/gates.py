"""What a gate gives, made by hand: rows of chunks, and orders behind them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.spark.stages.compile import TIME
from holdfast.spark.stages.entries import Order
from holdfast.spark.stages.rows import AT, AT_ARROW, BODY, HIDDEN, ROWS, at_rows, gate_schema
from holdfast.tuples import STIME

START = datetime(2024, 1, 1, tzinfo=UTC)
BUCKET = 1_000_000


def moment(microseconds: int) -> datetime:
    return START + timedelta(microseconds=microseconds)


def chunk_table(columns: StructType, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of a stream; without a time they follow each other by a microsecond."""
    schema = to_arrow_schema(StructType([TIME, *columns.fields]), timezone="UTC")
    timed = [{STIME: moment(at)} | row for at, row in enumerate(rows)]
    return pa.Table.from_pylist(timed, schema=schema)


def gate_table(columns: StructType, chunks: list[list[dict[str, Any]]]) -> pa.Table:
    """The chunks of one entry, bucket by bucket, and its order for two shards."""
    schema = to_arrow_schema(gate_schema(StructType([TIME, *columns.fields])), timezone="UTC")
    parts = []
    for bucket, rows in enumerate(chunks):
        table = chunk_table(columns, rows)
        given = dict(zip(table.column_names, table.columns, strict=True))
        given |= {AT: at_rows(1, 0, bucket, len(rows)), BODY: pa.nulls(len(rows), pa.binary())}
        parts.append(pa.table([given[name] for name in schema.names], schema=schema))
    at = [
        {"entry": 1, "order": int(Order.WORK), "shard": shard, "bucket": 7, "place": 0}
        for shard in (0, 1)
    ]
    orders = {AT: pa.array(at, AT_ARROW), BODY: pa.array([b"body"] * 2, pa.binary())}
    columns_of_orders = [orders.get(f.name, pa.nulls(2, f.type)) for f in schema]
    return pa.concat_tables([*parts, pa.table(columns_of_orders, schema=schema)])


def gate_frame(spark: SparkSession, ddl: str, rows: list[dict[str, Any]]) -> DataFrame:
    columns = StructType.fromDDL(ddl)
    schema = gate_schema(StructType([TIME, *columns.fields]))
    return spark.createDataFrame(gate_table(columns, [rows]), schema)


def rows_of(df: DataFrame) -> list[dict[str, Any]]:
    """The data, without its time, after a look at whether the orders are as they were."""
    table = df.toArrow().to_pylist()
    orders = [row for row in table if row[AT]["order"] != ROWS]
    assert [(row[AT]["shard"], row[AT]["bucket"], row[BODY]) for row in orders] == [
        (0, 7, b"body"),
        (1, 7, b"body"),
    ]
    for row in orders:
        assert all(value is None for name, value in row.items() if name not in HIDDEN)
    hidden = (*HIDDEN, STIME)
    return [
        {name: value for name, value in row.items() if name not in hidden}
        for row in table
        if row[AT]["order"] == ROWS
    ]
