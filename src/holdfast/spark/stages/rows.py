"""What a row of a stage carries beside its own columns, from the gate to the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T  # noqa: N812

__all__ = [
    "AT",
    "AT_ARROW",
    "BODY",
    "HIDDEN",
    "ROWS",
    "at_rows",
    "each_chunk",
    "gate_schema",
    "is_data",
]

AT: Final = "_at"
"""Where a row comes from, or what order it is."""
BODY: Final = "_body"
"""What comes with an order."""
HIDDEN: Final = (AT, BODY)

ROWS: Final = 0
"""The order of a row that is none: it is data."""

_FIELDS: Final = {
    "entry": (T.LongType(), pa.int64()),
    "order": (T.IntegerType(), pa.int32()),
    "shard": (T.IntegerType(), pa.int32()),
    "input": (T.IntegerType(), pa.int32()),
    "bucket": (T.LongType(), pa.int64()),
    "place": (T.LongType(), pa.int64()),
}
"""`input`: of the stage; behind a step with state the shard. `place`: in its chunk, or in what a
function made of that. An order goes to every `shard`; its `bucket` is the end of its stretch, its
`place` 1 if it is for the fork."""

AT_ARROW: Final = pa.struct([(name, kind) for name, (_, kind) in _FIELDS.items()])
AT_SPARK: Final = T.StructType([T.StructField(n, kind) for n, (kind, _) in _FIELDS.items()])


def gate_schema(columns: T.StructType) -> T.StructType:
    """What the gate source gives: orders are rows too, so all columns may be null."""
    fields = [T.StructField(AT, AT_SPARK), T.StructField(BODY, T.BinaryType())]
    fields += [T.StructField(field.name, field.dataType) for field in columns.fields]
    return T.StructType(fields)


def at_rows(entry: int, which: int, bucket: int | np.ndarray, rows: int) -> pa.StructArray:
    """Where the rows of a chunk, or of several of one input, come from."""
    values: dict[str, int | np.ndarray] = {
        "entry": entry,
        "order": ROWS,
        "shard": -1,
        "input": which,
        "bucket": bucket,
        "place": np.arange(rows),
    }
    arrays = [
        pa.array(np.broadcast_to(np.asarray(values[field.name]), rows), field.type)
        for field in AT_ARROW
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(AT_ARROW))


def is_data(batch: pa.RecordBatch) -> bool:
    """Whether the first row is data, not an order."""
    return bool(batch[AT][0]["order"].as_py() == ROWS)


def each_chunk(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition anew, in batches of a whole chunk each, or of orders of one entry.

    How Spark cuts its batches then makes no difference.
    """
    waiting: list[pa.RecordBatch] = []
    chunk: list[int] = []
    for batch in batches:
        if not len(batch):
            continue
        numbers = np.stack(
            [
                pc.struct_field(batch[AT], name).fill_null(-1).to_numpy()
                for name in ("entry", "input", "bucket")
            ]
        )
        edges = np.flatnonzero(np.any(numbers[:, 1:] != numbers[:, :-1], axis=0)) + 1
        for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), len(batch)], strict=True):
            here = numbers[:, start].tolist()
            if waiting and here != chunk:
                yield pa.concat_batches(waiting)
                waiting = []
            waiting.append(batch.slice(start, stop - start))
            chunk = here
    if waiting:
        yield pa.concat_batches(waiting)
