"""A stage as a query of Spark: from the gate's rows to the rows of the log.

Everything that can be said about the steps is said here, when the query is put together, with the
place in the topology. The same walk over the steps finds out what columns a stage publishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampType

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.stages.join_task import JoinPlan, JoinTask
from holdfast.pipeline.stages.operator import ANSWERS, PACKED, StageProcessor, Task, WindowTask
from holdfast.pipeline.stages.results import ToRows, join_rows, open_answers, window_rows
from holdfast.pipeline.stages.rows import (
    HIDDEN,
    PackChunk,
    WindowPacking,
    as_nullable,
    check_columns,
    gate_schema,
    is_row,
    pack_join_rows,
    pack_stage,
    pack_window_rows,
    shard_of_order,
)
from holdfast.pipeline.stages.steps import RowStep, apply_step, schema_of
from holdfast.pipeline.topology import Join, Stage, Topology, Window
from holdfast.spark.columns import column_named
from holdfast.spark.keys import Keys
from holdfast.spark.measures import measure_of
from holdfast.spark.partials import shard_column, shard_labels
from holdfast.spark.plan import Plan
from holdfast.windows.shard import Span

Open = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
TIME: Final = StructField(STIME, TimestampType(), nullable=False)


@dataclass(frozen=True)
class Compiled:
    """What there is to know of a stage before it runs."""

    gate: StructType
    """What its gate source gives."""
    inputs: tuple[StructType, ...]
    """What its inputs look like."""
    columns: tuple[tuple[str, ...], ...]
    """For each input, the columns of it that its chunks fill."""
    published: StructType
    """What its stream looks like."""
    stateful: bool
    pack: PackChunk | None
    """How the gate packs rows for a window that no other step comes before."""
    row_steps: tuple[RowStep, ...] | None
    """The steps, if Spark can carry out all of them by itself and without state."""
    build: Callable[[DataFrame], DataFrame]
    """Puts the steps behind the gate source."""
    open: Callable[[pa.Table], pa.Table]
    """Makes rows and orders of what the last step gives."""


def stream_schema(spark: SparkSession, topology: Topology, stream: str) -> StructType:
    """The columns of a stream, `stime` first."""
    return _schema_of(spark, topology, stream, {})


def compile_stage(spark: SparkSession, topology: Topology, name: str) -> Compiled:
    return _compile(spark, topology, name, {})


def _schema_of(
    spark: SparkSession, topology: Topology, stream: str, known: dict[str, StructType]
) -> StructType:
    if stream not in known:
        if stream in topology.streams:
            columns = schema_of(topology.streams[stream].source.schema)
            check_columns(f"streams.{stream}.schema", columns.fields)
            known[stream] = _stream(columns.fields)
        else:
            known[stream] = _compile(spark, topology, stream, known).published
    return known[stream]


def _stream(fields: Sequence[StructField]) -> StructType:
    own = [StructField(field.name, as_nullable(field.dataType)) for field in fields]
    return StructType([TIME, *own])


def _compile(
    spark: SparkSession, topology: Topology, name: str, known: dict[str, StructType]
) -> Compiled:
    stage = topology.stages[name]
    inputs = [_schema_of(spark, topology, stream, known) for stream in stage.inputs]
    if stage.steps and isinstance(stage.steps[0], Join):
        gate = gate_schema(StructType([TIME, *_joined_fields(inputs)]))
        columns = tuple(
            tuple(f"in{at}_{field.name}" for field in schema.fields[1:])
            for at, schema in enumerate(inputs)
        )
    else:
        gate = gate_schema(inputs[0])
        columns = tuple(tuple(schema.names[1:]) for schema in inputs)
        for stream, schema in zip(stage.inputs, inputs, strict=True):
            _check_same(name, stage.inputs[0], inputs[0], stream, schema)
    walk = _Walk(topology, name, stage, inputs)
    result = walk.through(spark.createDataFrame([], gate))
    return Compiled(
        gate,
        tuple(inputs),
        columns,
        _stream(result.schema.fields[len(HIDDEN) + 1 :]),
        walk.stateful,
        walk.pack,
        _row_steps(stage),
        lambda df: _Walk(topology, name, stage, inputs).through(df),
        partial(_opened, walk.closed),
    )


def _row_steps(stage: Stage) -> tuple[RowStep, ...] | None:
    steps = tuple(step for step in stage.steps if isinstance(step, RowStep))
    return steps if len(steps) == len(stage.steps) else None


def _joined_fields(inputs: Sequence[StructType]) -> Iterator[StructField]:
    for at, schema in enumerate(inputs):
        for field in schema.fields[1:]:
            yield StructField(f"in{at}_{field.name}", field.dataType)


def _check_same(stage: str, first: str, wanted: StructType, stream: str, given: StructType) -> None:
    if [(f.name, f.dataType) for f in wanted] != [(f.name, f.dataType) for f in given]:
        raise InvalidArgumentError(
            f"stages.{stage}.inputs: {first} has {wanted.simpleString()}, {stream} has "
            f"{given.simpleString()}; give inputs with the same columns, or join them"
        )


@dataclass(frozen=True)
class _Closed:
    """Answers of a step with state, before they are opened."""

    schema: StructType
    """Of the rows in them, with the hidden columns."""
    size: int
    to_rows: ToRows

    def open(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return open_answers(self.arrow, self.size, self.to_rows, batches)

    @property
    def arrow(self) -> pa.Schema:
        return to_arrow_schema(self.schema, timezone="UTC")


def _opened(closed: _Closed | None, table: pa.Table) -> pa.Table:
    if closed is None:
        return table
    return pa.Table.from_batches(closed.open(table.to_batches()), closed.arrow)


class _Walk:
    """The steps of a stage, one after the other."""

    def __init__(
        self, topology: Topology, name: str, stage: Stage, inputs: Sequence[StructType]
    ) -> None:
        self._topology = topology
        self._name = name
        self._stage = stage
        self._inputs = inputs
        self.stateful = False
        self.pack: PackChunk | None = None
        self.closed: _Closed | None = None
        """What the last step gives, if it is one with state."""

    def through(self, df: DataFrame) -> DataFrame:
        for at, step in enumerate(self._stage.steps):
            place = f"stages.{self._name}.steps[{at}]"
            df = self._open(df)
            if isinstance(step, Join):
                df = self._join(df, step, f"{place}.join")
            elif isinstance(step, Window):
                df = self._window(df, step, f"{place}.window", is_first=at == 0)
            else:
                df = apply_step(df, step, place, str(self._topology.home))
        return df

    def _open(self, df: DataFrame) -> DataFrame:
        closed, self.closed = self.closed, None
        if closed is None or not df.isStreaming:
            return df
        return df.mapInArrow(closed.open, closed.schema)

    def _window(self, df: DataFrame, step: Window, place: str, *, is_first: bool) -> DataFrame:
        own = self._inputs[0] if is_first else StructType(df.drop(*HIDDEN).schema.fields)
        slide = step.size if step.slide is None else step.slide
        try:
            plan = Plan(
                keys=Keys.of(own, step.keys),
                time_type=TimestampType(),
                spans=(Span(int(step.size), int(slide), int(step.size)),),
                names=None,
                measures=tuple(measure_of(each, own) for each in step.aggregates),
                shards=self._stage.shards,
                early=False,
                linger=None,
                late=None,
            )
            plan.make_window()
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{place}: {error}") from None
        answers = plan.carried_schema
        check_columns(place, answers.fields)
        task, to_rows = partial(WindowTask, plan), partial(window_rows, tuple(plan.keys.names))
        if is_first:
            self.pack = WindowPacking(plan, tuple(shard_labels(plan.shards)))
            return self._stateful(df, task, answers.fields, to_rows)
        columns = [
            column_named(STIME).alias("t"),
            *(column.alias(f"k{i}") for i, column in enumerate(plan.keys.to_carried())),
            *(column_named(source).alias(f"v{i}") for i, source in enumerate(plan.sources)),
        ]
        rows = df.select(*HIDDEN, self._shard(plan.keys.columns()), *columns)
        packed = _packed(rows, partial(pack_window_rows, plan))
        return self._stateful(packed, task, answers.fields, to_rows)

    def _join(self, df: DataFrame, step: Join, place: str) -> DataFrame:
        keys = self._join_keys(step, place)
        names = [schema.names[1:] for schema in self._inputs]
        clashes = {name.lower() for name in names[0]} & {name.lower() for name in names[1]}
        clashes -= {key.lower() for key in step.keys}
        sides = [
            tuple(
                (name, f"{stream}_{name}" if name.lower() in clashes else name)
                for name in some
                if at == 0 or name not in step.keys
            )
            for at, (stream, some) in enumerate(zip(self._stage.inputs, names, strict=True))
        ]
        fields = [
            StructField(new, schema[old].dataType)
            for schema, side in zip(self._inputs, sides, strict=True)
            for old, new in side
        ]
        check_columns(place, fields)
        pair = to_arrow_schema(StructType([TIME, *fields]), timezone="UTC")
        size = int(self._topology.bucket)
        plan = JoinPlan(keys, int(step.within), size, sides[0], sides[1], pair)
        either = [
            F.coalesce(*(column_named(f"in{at}_{key}") for at in (0, 1))) for key in keys.names
        ]
        packed = _packed(df.select("*", self._shard(either)), partial(pack_join_rows, plan))
        return self._stateful(packed, partial(JoinTask, plan), fields, join_rows)

    def _join_keys(self, step: Join, place: str) -> Keys:
        try:
            keys, others = (Keys.of(schema, step.keys) for schema in self._inputs)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{place}.keys: {error}") from None
        for mine, other in zip(keys.fields, others.fields, strict=True):
            if mine.dataType != other.dataType:
                raise InvalidArgumentError(
                    f"{place}.keys: {mine.name} is {mine.dataType.simpleString()} in "
                    f"{self._stage.inputs[0]} and {other.dataType.simpleString()} in "
                    f"{self._stage.inputs[1]}; cast one of them in a stage before"
                )
        return keys

    def _shard(self, keys: Sequence[Column]) -> Column:
        labels = shard_labels(self._stage.shards)
        of_row = shard_column(list(keys), labels)
        return F.when(is_row(), of_row).otherwise(shard_of_order()).alias("s")

    def _stateful(
        self,
        packed: DataFrame,
        make_task: Callable[[Any, Any], Task],
        answers: Sequence[StructField],
        to_rows: ToRows,
    ) -> DataFrame:
        schema = gate_schema(StructType([TIME, *answers]))
        self.stateful = True
        self.closed = _Closed(schema, int(self._topology.bucket), to_rows)
        if not packed.isStreaming:
            return packed.sparkSession.createDataFrame([], schema)
        return packed.groupBy("shard").transformWithState(
            statefulProcessor=StageProcessor(make_task),
            outputStructType=ANSWERS,
            outputMode="Update",
            timeMode="None",
        )


def _packed(rows: DataFrame, pack_chunk: PackChunk) -> DataFrame:
    return rows.mapInArrow(partial(pack_stage, pack_chunk), PACKED)
