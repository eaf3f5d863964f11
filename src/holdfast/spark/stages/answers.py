"""What the state of a stage answers, as rows again.

Behind further steps this runs in `mapInArrow`; if there are none the query does it in the driver,
which saves a way through Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.spark.stages.rows import ROWS, order_columns, row_columns
from holdfast.tuples import STIME

__all__ = ["ToRows", "join_rows", "open_answers", "window_rows"]

ToRows = Callable[[pa.Table], pa.Table]
"""Makes rows, with their time and in order, of what a task has answered."""


def open_answers(
    schema: pa.Schema, size: int, to_rows: ToRows, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows in answers, and the orders that were carried out. `size`: of a bucket."""
    for batch in batches:
        for answer in batch.to_pylist():
            if answer["order"] != ROWS:
                yield _order(schema, answer)
                continue
            rows = to_rows(pa.ipc.open_stream(answer["blob"]).read_all())
            buckets = rows[STIME].cast(pa.int64()).to_numpy() // size
            given = row_columns(answer["entry"], answer["shard"], buckets, len(rows))
            columns = [
                given[field.name] if field.name in given else rows[field.name] for field in schema
            ]
            yield from pa.table(columns, schema=schema).to_batches()


def _order(schema: pa.Schema, answer: Mapping[str, Any]) -> pa.RecordBatch:
    given = order_columns(
        answer["entry"],
        answer["order"],
        answer["bucket"],
        bool(answer["place"]),
        {answer["shard"]: answer["blob"]},
    )
    columns = [given.get(field.name, pa.nulls(1, field.type)) for field in schema]
    return pa.record_batch(columns, schema=schema)


def window_rows(keys: Sequence[str], table: pa.Table) -> pa.Table:
    """Windows by their end, then by key. Their time is the last moment in them."""
    ends = pc.struct_field(table["window"], "end").cast(pa.int64())
    times = pc.subtract(ends, 1).cast(pa.timestamp("us", "UTC"))
    sorted_by = [times, *(_sortable(table[key]) for key in keys)]
    named = pa.table(sorted_by, names=[str(at) for at in range(len(sorted_by))])
    order = pc.sort_indices(named, sort_keys=[(name, "ascending") for name in named.column_names])
    return table.add_column(0, STIME, times).take(order)


def join_rows(table: pa.Table) -> pa.Table:
    """Pairs have all that, and come in order."""
    return table


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Any order will do that tells different keys apart."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind):
        return pa.array([None if v is None else repr(v) for v in column.to_pylist()], pa.string())
    return column
