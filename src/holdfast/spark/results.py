"""Results of shard windows as Arrow: packed behind the operator, unpacked into rows.

`operator` and `batch` make tables of emissions; `open_answers` runs in `mapInArrow` and turns the
blobs of the stateful operator into rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema

from holdfast.spark.plan import Plan
from holdfast.windows.shard import Emission

__all__ = [
    "COUNTERS",
    "COUNTS",
    "LEVELS",
    "late_folder",
    "open_answers",
    "portions",
    "tabulate",
    "to_stream",
    "write_late",
]


COUNTERS: Final = (
    "rows",
    "late",
    "answers",
    "uncertain",
    "pairs_read",
    "pairs_written",
    "pairs_deleted",
    "combines",
    "bytes_read",
    "bytes_written",
)
"""How many of each in this batch."""

LEVELS: Final = ("panes", "open_panes", "keys")
"""How many of each there are at its end."""

COUNTS: Final = (*COUNTERS, *LEVELS)


# Rows that came after their pane was closed, as Parquet files that the user can read.
#
# Called by `operator`, in the executors. One file for each batch and shard that has any. A batch
# that is repeated writes the same file again, so each late row is there once.

QUERY_ID = "sql.streaming.queryId"


def late_folder(path: str) -> str:
    """The folder as all processes see it."""
    return path if "://" in path else os.path.abspath(path)


def write_late(folder: str, shard: int, version: int, rows: pa.Table) -> None:
    """`version` is the number of the batch as this shard counts them."""
    system, path = fs.FileSystem.from_uri(folder)
    system.create_dir(path, recursive=True)
    name = f"{_query_id()}-{shard:05d}-{version:012d}.parquet"
    # Readers pass over names that begin with a dot: a file is there whole or not at all.
    hidden = f"{path}/.{name}-{uuid4().hex}"
    pq.write_table(rows, hidden, filesystem=system)
    system.move(hidden, f"{path}/{name}")


def _query_id() -> str:
    context = TaskContext.get()
    return (context and context.getLocalProperty(QUERY_ID)) or "query"


BATCH_ROWS: Final = 2**16
"""Rows in one Arrow batch of a blob."""

BLOB_ROWS: Final = 2**19
"""Rows in one blob, about: Spark takes no more than 2 GiB for a value."""


def portions(emissions: Sequence[Emission]) -> Iterator[list[Emission]]:
    """The emissions, as many at a time as make one blob."""
    portion: list[Emission] = []
    rows = 0
    for emission in emissions:
        portion.append(emission)
        rows += len(emission) + len(emission.idle)
        if rows >= BLOB_ROWS:
            yield portion
            portion, rows = [], 0
    if rows:
        yield portion


def tabulate(plan: Plan, emissions: Sequence[Emission], *, final: bool = True) -> pa.Table:
    """A row for each key of each window, idle ones included."""
    schema = to_arrow_schema(plan.carried_schema, timezone="UTC")
    emissions = [emission for emission in emissions if len(emission) or len(emission.idle)]
    if not emissions:
        return schema.empty_table()
    sizes = [len(emission) + len(emission.idle) for emission in emissions]
    columns = _keys(plan, emissions)
    columns.append(_windows(plan, emissions, sizes, schema.field("window").type))
    if plan.names is not None:
        spans = np.repeat([emission.span for emission in emissions], sizes)
        columns.append(pa.array(plan.names, pa.string()).take(pa.array(spans)))
    for position, measure in enumerate(plan.measures):
        parts = []
        for emission in emissions:
            if len(emission):
                parts.append(measure.answer(emission.states[position]))
            if len(emission.idle):
                parts.append(measure.nothing(len(emission.idle)))
        columns.append(pa.chunked_array(parts).combine_chunks())
    if plan.bounded:
        columns.append(_within_bound(emissions))
    if plan.early:
        columns.append(pa.repeat(pa.scalar(final), sum(sizes)))
    return pa.table(columns, schema=schema)


def _keys(plan: Plan, emissions: Sequence[Emission]) -> list[pa.Array]:
    ids = np.concatenate([part for each in emissions for part in (each.ids, each.idle)])
    distinct, places = np.unique(ids, return_inverse=True)
    names = emissions[-1].names
    return [keys.take(pa.array(places)) for keys in plan.keys.decode(names.list(distinct))]


def _windows(
    plan: Plan, emissions: Sequence[Emission], sizes: list[int], kind: pa.StructType
) -> pa.StructArray:
    bounds = [
        pa.array(np.repeat(np.array(moments, np.int64), sizes)).cast(kind.field(0).type)
        for moments in ([each.start for each in emissions], [each.end for each in emissions])
    ]
    return pa.StructArray.from_arrays(bounds, fields=[kind.field(0), kind.field(1)])


def _within_bound(emissions: Sequence[Emission]) -> pa.Array:
    parts = []
    for emission in emissions:
        assert emission.certain is not None
        parts += [emission.certain, np.ones(len(emission.idle), np.bool_)]
    return pa.array(np.concatenate(parts))


def to_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table, max_chunksize=BATCH_ROWS)
    return sink.getvalue().to_pybytes()


def open_answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in the blobs; rows of the stateful operator that only count have none."""
    for batch in batches:
        for blob in batch["blob"]:
            if blob.is_valid:
                yield from pa.ipc.open_stream(blob.as_buffer())
