"""The state of a stage without Spark: the processor in Spark's own tester, shard by shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from zlib import crc32

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.tws_tester import TwsTester
from pyspark.sql.types import StructField, StructType, TimestampType

from holdfast import aggregates
from holdfast.aggregates import Aggregate
from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.stages.compile import TIME
from holdfast.pipeline.stages.entries import Entry, Order, Piece
from holdfast.pipeline.stages.join_task import JoinPlan, JoinTask
from holdfast.pipeline.stages.operator import StageProcessor, WindowTask, order_body
from holdfast.pipeline.stages.results import (
    Result,
    join_rows,
    open_answers,
    results_in,
    window_rows,
)
from holdfast.pipeline.stages.rows import (
    SCHEMA,
    PackChunk,
    gate_schema,
    order_columns,
    pack_join_rows,
    pack_stage,
    pack_window_rows,
    row_columns,
)
from holdfast.spark.keys import Keys
from holdfast.spark.measures import measure_of
from holdfast.spark.partials import shard_labels
from holdfast.spark.plan import Plan
from holdfast.windows.shard import Span
from tests.pipeline.stages.gates import BUCKET

LABELS = shard_labels(2)

ToBatch = Callable[[int, pa.Table], pa.Table]
"""Rows of an input as the packing wants them."""


@dataclass(frozen=True)
class Kind:
    """A step with state, resolved."""

    to_batch: ToBatch
    pack_chunk: PackChunk
    make_task: Callable[[Any, Any], Any]
    schema: StructType
    """Of the stream."""
    to_rows: Callable[[pa.Table], pa.Table]


class Shards:
    """Carries out entries, all that are given at once in one batch."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._tester = TwsTester(StageProcessor(kind.make_task))
        self.next = 1

    def run(self, *entries: Entry) -> list[Result]:
        numbered = [replace(entry, number=self.next + at) for at, entry in enumerate(entries)]
        self.next += len(entries)
        batches = [batch for entry in numbered for batch in self._rows(entry)]
        orders = [batch for entry in numbered for batch in self._orders(entry)]
        packed: dict[int, list[Row]] = {}
        for batch in pack_stage(self._kind.pack_chunk, iter([*batches, *orders])):
            for row in batch.to_pylist():
                packed.setdefault(row["shard"], []).append(Row(**row))
        answers = [
            answer.asDict()
            for shard in sorted(packed, reverse=self.next % 2 == 0)
            for answer in self._tester.test(shard, packed[shard])
        ]
        fields = [(name, kind) for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)]
        table = pa.Table.from_pylist(
            answers, schema=pa.schema([each for each in fields if each[0] != "input"])
        )
        hidden = to_arrow_schema(gate_schema(self._kind.schema), timezone="UTC")
        rows = open_answers(hidden, BUCKET, self._kind.to_rows, table.to_batches())
        stream = to_arrow_schema(self._kind.schema, timezone="UTC")
        return list(results_in(pa.Table.from_batches(rows, hidden), stream, BUCKET))

    def _rows(self, entry: Entry) -> Iterator[pa.RecordBatch]:
        for piece in entry.pieces:
            table = self._kind.to_batch(piece.input, piece.chunk.table())
            hidden = row_columns(entry.number, piece.input, piece.bucket, len(table))
            for name, column in hidden.items():
                table = table.append_column(name, column)
            yield from table.to_batches(max_chunksize=7)

    def _orders(self, entry: Entry) -> Iterator[pa.RecordBatch]:
        bodies = dict.fromkeys(LABELS, order_body(entry.order, entry.state))
        yield pa.record_batch(
            order_columns(entry.number, int(entry.order), entry.end, entry.tentative, bodies)
        )


def _labels(keys: Sequence[pa.ChunkedArray], rows: int) -> pa.Array:
    texts = zip(*(column.to_pylist() for column in keys), strict=True) if keys else [()] * rows
    return pa.array([LABELS[crc32(repr(t).encode()) % 2] for t in texts], pa.int32())


MEASURES = [
    aggregates.count().alias("n"),
    aggregates.sum("v").alias("s"),
    aggregates.mean("v").alias("m"),
    aggregates.max("v").alias("x"),
    aggregates.last("v").alias("l"),
]


def window_kind(
    ddl: str, keys: Sequence[str], size: int, slide: int, measures: Sequence[Aggregate] = MEASURES
) -> Kind:
    own = StructType([TIME, *StructType.fromDDL(ddl).fields])
    plan = Plan(
        keys=Keys.of(own, list(keys)),
        time_type=TimestampType(),
        spans=(Span(size, slide, size),),
        names=None,
        measures=tuple(measure_of(each, own) for each in measures),
        shards=2,
        early=False,
        linger=None,
        late=None,
    )

    def to_batch(which: int, table: pa.Table) -> pa.Table:
        columns = {"s": _labels([table[key] for key in keys], len(table)), "t": table[STIME]}
        columns |= {f"k{at}": table[key] for at, key in enumerate(keys)}
        columns |= {f"v{at}": table[source] for at, source in enumerate(plan.sources)}
        return pa.table(columns)

    return Kind(
        to_batch,
        partial(pack_window_rows, plan),
        partial(WindowTask, plan),
        StructType([TIME, *plan.carried_schema.fields]),
        partial(window_rows, tuple(keys)),
    )


def join_kind(ddl: str, keys: Sequence[str], within: int) -> Kind:
    """Both inputs have the same columns, those that are no keys with the name of their side."""
    own = StructType.fromDDL(ddl)
    rest = [field for field in own if field.name not in keys]
    sides = [tuple((f.name, f"{side}{f.name}") for f in rest) for side in ("l_", "r_")]
    left = (*((key, key) for key in keys), *sides[0])
    fields = [own[key] for key in keys]
    fields += [StructField(f"{side}{f.name}", f.dataType) for side in ("l_", "r_") for f in rest]
    schema = StructType([TIME, *fields])
    plan = JoinPlan(
        Keys.of(own, list(keys)),
        within,
        BUCKET,
        left,
        sides[1],
        to_arrow_schema(schema, timezone="UTC"),
    )

    def to_batch(which: int, table: pa.Table) -> pa.Table:
        columns = {"s": _labels([table[key] for key in keys], len(table)), STIME: table[STIME]}
        columns |= {f"in{which}_{name}": table[name] for name in own.names}
        return pa.table(columns)

    return Kind(to_batch, partial(pack_join_rows, plan), partial(JoinTask, plan), schema, join_rows)


def work(bucket: int, *pieces: Piece, buckets: int = 1, tentative: bool = False) -> Entry:
    """An entry for some buckets from this one on."""
    start, end = bucket * BUCKET, (bucket + buckets) * BUCKET
    return Entry(0, Order.WORK, start, end, tentative, pieces)
