"""Rows of a stage on Spark: their columns, what they carry, and how they are packed.

Runs in `mapInArrow` behind the gate source and the stateless steps, which keep the order of rows;
in the gate source itself if there is no such step before a window. A blob holds rows of one chunk
only, so what is merged does not depend on how Spark divides its work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.stages.join_task import JoinPlan
from holdfast.spark.partials import pack_columns
from holdfast.spark.plan import Plan
from holdfast.spark.results import to_stream

# What a row of a stage carries beside its own columns, from the gate to the log.
#
# Orders travel as rows too: their own columns are null. Where a row comes from is three numbers in
# columns of their own, for every part of a struct costs Spark a look at whether it is null.

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


_CARRIED: Final = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.DayTimeIntervalType,
)


def check_columns(place: str, fields: Sequence[T.StructField]) -> None:
    """Refuse what no stream can have; `fields` are the columns beside `stime`."""
    seen: set[str] = set()
    for field in fields:
        name = field.name
        if name.lower() in (STIME, *HIDDEN):
            raise InvalidArgumentError(
                f"{place}: {name} is a name that Holdfast needs itself; give the column another"
            )
        if name.lower() in seen:
            raise InvalidArgumentError(
                f"{place}: there are two columns {name} (case does not count); write AS and "
                "another name for one of them"
            )
        seen.add(name.lower())
        if not _is_carried(field.dataType):
            raise InvalidArgumentError(
                f"{place}: column {name} is {field.dataType.simpleString()}, which no stream can "
                "carry; cast it, or take it apart into columns"
            )


def _is_carried(data_type: T.DataType) -> bool:
    match data_type:
        case T.StringType():
            return bool(data_type.isUTF8BinaryCollation())
        case T.ArrayType():
            return _is_carried(data_type.elementType)
        case T.StructType():
            return bool(data_type.fields) and all(_is_carried(each.dataType) for each in data_type)
    return type(data_type) in _CARRIED


def as_nullable(data_type: T.DataType) -> T.DataType:
    """The type whose parts may all be null. Spark knows of some that they are never null, and not
    always the same ones."""
    match data_type:
        case T.ArrayType():
            return T.ArrayType(as_nullable(data_type.elementType))
        case T.StructType():
            return T.StructType(
                [T.StructField(each.name, as_nullable(each.dataType)) for each in data_type]
            )
    return data_type


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
    """Rows with the columns that `holdfast.spark.partials` wants, and their time."""
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
