"""Rows and orders on their way to the state of a stage: packed by shard, chunk by chunk.

Runs in `mapInArrow` behind the gate source and the stateless steps, which keep the order of rows;
in the gate source itself if there is no such step before a window. A blob holds rows of one chunk
only, so what is merged does not depend on how Spark divides its work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.spark.answers import to_stream
from holdfast.spark.packing import pack_columns
from holdfast.spark.plan import Plan
from holdfast.spark.stages.join_task import JoinPlan
from holdfast.spark.stages.rows import BODY, BUCKET, ROWS, Places, each_chunk
from holdfast.tuples import STIME

__all__ = [
    "PackChunk",
    "WindowPacking",
    "pack_join_rows",
    "pack_stage",
    "pack_window_rows",
    "packed_orders",
    "packed_rows",
]

PackChunk = Callable[[Any, int], Iterator[tuple[int, bytes]]]
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
        places = Places(chunk)
        entry, bucket = int(places.entries[0]), chunk[BUCKET][0].as_py()
        if places.is_row[0]:
            which = int(places.which[0])
            yield packed_rows(entry, which, bucket, pack_chunk(chunk, which))
        else:
            order, tentative = int(places.orders[0]), bool(places.is_tentative[0])
            bodies = dict(zip(places.low.tolist(), chunk[BODY].to_pylist(), strict=True))
            yield packed_orders(entry, order, bucket, tentative, bodies)


def packed_rows(
    entry: int, which: int, bucket: int, blobs: Iterable[tuple[int, bytes]]
) -> pa.RecordBatch:
    return _batch([(shard, entry, ROWS, which, bucket, 0, blob) for shard, blob in blobs])


def packed_orders(
    entry: int, order: int, end: int, tentative: bool, bodies: Mapping[int, bytes | None]
) -> pa.RecordBatch:
    place = int(tentative)
    return _batch([(s, entry, order, -1, end, place, body) for s, body in bodies.items()])


def _batch(packed: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*packed, strict=True) if packed else ([] for _ in SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=SCHEMA)


@dataclass(frozen=True)
class WindowPacking:
    """Packs rows as a stream has them."""

    plan: Plan
    labels: tuple[int, ...]
    """Of the shards."""

    def __call__(self, rows: pa.Table, which: int) -> Iterator[tuple[int, bytes]]:
        names = {"t": STIME}
        names |= {f"k{at}": name for at, name in enumerate(self.plan.keys.names)}
        names |= {f"v{at}": name for at, name in enumerate(self.plan.sources)}
        columns = {to: rows[name].combine_chunks() for to, name in names.items()}
        yield from pack_columns(self.plan, columns, self.labels)


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
