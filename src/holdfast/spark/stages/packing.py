"""Rows and orders on their way to the state of a stage: packed by shard, chunk by chunk.

Runs in `mapInArrow` behind the gate source and the stateless steps, which keep the order of rows. A
blob holds rows of one chunk only, so what is merged does not depend on how Spark divides its work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.spark.answers import to_stream
from holdfast.spark.packing import pack_columns
from holdfast.spark.plan import Plan
from holdfast.spark.stages.join_task import JoinPlan
from holdfast.spark.stages.rows import AT, BODY, ROWS, each_chunk, is_data
from holdfast.tuples import STIME

__all__ = ["PackChunk", "pack_join_rows", "pack_stage", "pack_window_rows"]

PackChunk = Callable[[pa.RecordBatch, int], Iterator[tuple[int, bytes]]]
"""Rows of one chunk and the number of its input: a blob for each shard they belong to."""

SCHEMA: Final = pa.schema(
    [
        ("shard", pa.int32()),
        ("entry", pa.int64()),
        ("order", pa.int32()),
        ("input", pa.int32()),
        ("bucket", pa.int64()),
        ("place", pa.int64()),
        ("blob", pa.binary()),
    ]
)


def pack_stage(
    pack_chunk: PackChunk, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Pack the rows of a partition and pass its orders on."""
    for chunk in each_chunk(batches):
        packed = list(_packed(pack_chunk, chunk))
        if packed:
            columns = zip(*packed, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
            yield pa.record_batch(arrays, schema=SCHEMA)


def _packed(pack_chunk: PackChunk, chunk: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    if is_data(chunk):
        at = chunk[AT][0].as_py()
        for shard, blob in pack_chunk(chunk, at["input"]):
            yield shard, at["entry"], ROWS, at["input"], at["bucket"], 0, blob
        return
    for order in chunk.select([AT, BODY]).to_pylist():
        at = order[AT]
        yield at["shard"], at["entry"], at["order"], -1, at["bucket"], at["place"], order[BODY]


def pack_window_rows(plan: Plan, rows: pa.RecordBatch, which: int) -> Iterator[tuple[int, bytes]]:
    """Rows with the columns that `holdfast.spark.packing` wants, and their time."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    yield from pack_columns(plan, columns)


def pack_join_rows(plan: JoinPlan, rows: pa.RecordBatch, which: int) -> Iterator[tuple[int, bytes]]:
    """Rows of one input, with its own columns only. Null equals nothing: such rows have no pair."""
    taken = plan.left if which == 0 else plan.right
    names = dict.fromkeys((STIME, *plan.keys.names, *(name for name, _ in taken)))
    prefix = f"in{which}_"
    columns = {name: rows[STIME] if name == STIME else rows[f"{prefix}{name}"] for name in names}
    table = pa.table(columns)
    shards = rows["s"].to_numpy(zero_copy_only=False)
    whole = np.ones(len(rows), np.bool_)
    for key in plan.keys.names:
        whole &= pc.is_valid(columns[key]).to_numpy(zero_copy_only=False)
    for shard in np.unique(shards[whole]).tolist():
        yield shard, to_stream(table.filter(pa.array(whole & (shards == shard))))
