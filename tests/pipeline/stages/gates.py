"""What a gate gives, made by hand: rows of chunks, and orders behind them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.stages.compile import TIME
from holdfast.pipeline.stages.entries import Order
from holdfast.pipeline.stages.rows import (
    BODY,
    ENTRY,
    HIDDEN,
    Places,
    gate_schema,
    order_columns,
    row_columns,
)
from holdfast.pipeline.stages.rows import (
    BUCKET as BUCKET_OF,
)

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
        given |= row_columns(1, 0, bucket, len(rows))
        parts.append(pa.table([given[name] for name in schema.names], schema=schema))
    orders = order_columns(1, int(Order.WORK), 7, False, dict.fromkeys((0, 1), b"body"))
    columns_of_orders = [orders.get(f.name, pa.nulls(2, f.type)) for f in schema]
    return pa.concat_tables([*parts, pa.table(columns_of_orders, schema=schema)])


def gate_frame(spark: SparkSession, ddl: str, rows: list[dict[str, Any]]) -> DataFrame:
    columns = StructType.fromDDL(ddl)
    schema = gate_schema(StructType([TIME, *columns.fields]))
    return spark.createDataFrame(gate_table(columns, [rows]), schema)


def rows_of(df: DataFrame) -> list[dict[str, Any]]:
    """The data, without its time, after a look at whether the orders are as they were."""
    table = df.toArrow()
    orders = table.filter(pc.less(table[ENTRY], 0))
    assert Places(orders).low.tolist() == [0, 1]
    assert orders.select([BUCKET_OF, BODY]).to_pylist() == [{BUCKET_OF: 7, BODY: b"body"}] * 2
    own = [name for name in table.column_names if name not in (*HIDDEN, STIME)]
    assert all(set(row.values()) <= {None} for row in orders.select(own).to_pylist())
    return table.filter(pc.greater(table[ENTRY], 0)).select(own).to_pylist()
