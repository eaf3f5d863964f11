"""What a row of a stage carries beside its own columns, from the gate to the log.

Orders travel as rows too: their own columns are null. Where a row comes from is three numbers in
columns of their own, for every part of a struct costs Spark a look at whether it is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

__all__ = [
    "BODY",
    "BUCKET",
    "ENTRY",
    "HIDDEN",
    "PLACE",
    "ROWS",
    "Places",
    "each_chunk",
    "gate_schema",
    "is_data",
    "is_row",
    "order_columns",
    "row_columns",
    "shard_of_order",
]

ENTRY: Final = "_entry"
"""The entry of the journal: its number, for an order less than 0."""
BUCKET: Final = "_bucket"
"""Of a row; for an order the end of its stretch."""
PLACE: Final = "_place"
"""Of a row: which input it is of, behind a step with state which shard, and its place in the chunk
or in what was made of that. Of an order: which one, whether for the fork, and its shard."""
BODY: Final = "_body"
"""What comes with an order."""
HIDDEN: Final = (ENTRY, BUCKET, PLACE, BODY)

ROWS: Final = 0
"""The order of a row that is none: it is data."""

_LOW: Final = 40
_MASK: Final = 2**_LOW - 1


def gate_schema(columns: T.StructType) -> T.StructType:
    """What the gate source gives: orders are rows too, so all other columns may be null."""
    numbers = [T.StructField(name, T.LongType(), nullable=False) for name in (ENTRY, BUCKET, PLACE)]
    own = [T.StructField(field.name, field.dataType) for field in columns.fields]
    return T.StructType([*numbers, T.StructField(BODY, T.BinaryType()), *own])


def row_columns(
    entry: int, which: int, bucket: int | np.ndarray[Any, Any], rows: int
) -> dict[str, pa.Array]:
    """Where the rows of a chunk, or of several of one input, come from."""
    return {
        ENTRY: pa.array(np.full(rows, entry)),
        BUCKET: pa.array(np.full(rows, bucket)),
        PLACE: pa.array((which << _LOW) + np.arange(rows)),
        BODY: pa.nulls(rows, pa.binary()),
    }


def order_columns(
    entry: int, order: int, end: int, tentative: bool, bodies: dict[int, bytes | None]
) -> dict[str, pa.Array]:
    """An order for each shard, with what comes with it."""
    high = (2 * order + tentative) << _LOW
    return {
        ENTRY: pa.array(np.full(len(bodies), -entry)),
        BUCKET: pa.array(np.full(len(bodies), end)),
        PLACE: pa.array([high + shard for shard in bodies], pa.int64()),
        BODY: pa.array(list(bodies.values()), pa.binary()),
    }


class Places:
    """The numbers of some rows, taken apart."""

    def __init__(self, rows: pa.RecordBatch | pa.Table) -> None:
        entries, self._places = rows[ENTRY].to_numpy(), rows[PLACE].to_numpy()
        self.is_row: np.ndarray[Any, Any] = entries > 0
        self.entries: np.ndarray[Any, Any] = np.abs(entries)

    @property
    def which(self) -> np.ndarray[Any, Any]:
        """The inputs of rows."""
        return self._places >> _LOW

    @property
    def orders(self) -> np.ndarray[Any, Any]:
        return np.where(self.is_row, ROWS, self._places >> (_LOW + 1))

    @property
    def is_tentative(self) -> np.ndarray[Any, Any]:
        return (self._places >> _LOW & 1).astype(np.bool_)

    @property
    def low(self) -> np.ndarray[Any, Any]:
        """The places of rows, the shards of orders."""
        return self._places & _MASK

    @property
    def sortable(self) -> np.ndarray[Any, Any]:
        """Rows of one moment come in this order."""
        return self._places


def is_row() -> Column:
    """Whether it is data, not an order."""
    return F.col(ENTRY) > 0


def shard_of_order() -> Column:
    return F.col(PLACE).bitwiseAND(F.lit(_MASK)).cast("int")


def is_data(batch: pa.RecordBatch) -> bool:
    """Whether the first row is data, not an order."""
    return bool(batch[ENTRY][0].as_py() > 0)


def each_chunk(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition anew, in batches of a whole chunk each, or of orders of one entry.

    How Spark cuts its batches then makes no difference.
    """
    waiting: list[pa.RecordBatch] = []
    chunk: list[int] = []
    for batch in batches:
        if not len(batch):
            continue
        which = batch[PLACE].to_numpy() >> _LOW
        numbers = np.stack([batch[ENTRY].to_numpy(), which, batch[BUCKET].to_numpy()])
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
