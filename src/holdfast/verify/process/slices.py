"""Output of a stage in slices: cut by a hash of the row, hashed, written and reported.

All of it happens in Spark's tasks, one for each slice. Which slice a row is of and where it stands
there depend on the rows alone: not on partitions, nor on retries, speculation or adaptive plans. A
task never waits for a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import HoldfastError, InvalidArgumentError, StoreError, WireError
from holdfast.spark.partials import shard_column, shard_labels
from holdfast.storage.untrusted import check_table
from holdfast.verify.machine import Agreed, Holder, Report, Run
from holdfast.verify.process.canonical import canonical, canonical_schema
from holdfast.verify.process.messages import decode, encode
from holdfast.verify.process.placement import this_host
from holdfast.verify.process.slice_files import SliceWriter
from holdfast.verify.process.task_api import MESSAGES, messages, settle

_LABEL: Final = "holdfast slice"


class _Made(NamedTuple):
    """What a task answers its driver."""

    slice: int
    host: str
    path: str
    digest: bytes
    rows: int
    told: bool
    """Whether the verifiers have heard of it."""


class Reporter(Protocol):
    """Brings reports to the verifiers. It travels to Spark's tasks, so it can be pickled."""

    def report(self, report: Report) -> None:
        """Raises a HoldfastError when it could not be brought."""


@dataclass(frozen=True)
class Making:
    """What the tasks of a replica need to know to make the slices of a stage."""

    job: str
    stage: str
    run: Run
    basis: bytes
    replica: int
    storage: Path
    reporter: Reporter | None
    """Of the tasks; None if the driver reports for them."""

    @property
    def folder(self) -> PurePosixPath:
        """In the storage."""
        run = f"{self.run.epoch}-{self.run.attempt}"
        return PurePosixPath(self.job, str(self.replica), self.stage, run)

    def report_of(self, made: _Made) -> Report:
        return Report(
            job=self.job,
            stage=self.stage,
            run=self.run,
            slice=made.slice,
            replica=self.replica,
            host=made.host,
            path=made.path,
            digest=made.digest,
            rows=made.rows,
            basis=self.basis,
        )


def make_slices(
    df: DataFrame,
    slices: int,
    making: Making,
    reporter: Reporter,
    check: Callable[[], None] | None = None,
) -> tuple[Agreed, ...]:
    """Compute what a stage gives, write it and report it; its slices in order.

    Tasks report as soon as they can. What they could not bring goes through `reporter` in the end,
    and raises if it cannot be brought either. With a `check`, which may raise, nothing is reported
    before that has been called, which is when all rows are made.
    """
    if check is not None:
        making = replace(making, reporter=None)
    schema = canonical_schema(making.stage, df)
    labels = shard_labels(slices)
    plain = canonical(making.stage, df)
    rows = (
        plain.withColumn(_LABEL, shard_column([plain[name] for name in plain.columns], labels))
        .repartition(slices, _LABEL)
        .sortWithinPartitions(*plain.columns)
    )

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        yield _make(making, number, schema, _checked(batches, making, schema, labels[number]))

    made = _collect(rows, make)
    # Spark leaves out partitions where it knows that there is nothing in any.
    missing = sorted(set(range(slices)) - made.keys())
    if missing:
        made |= _make_empty(df.sparkSession, making, schema, missing)
    if check is not None:
        check()
    for each in made.values():
        if not each.told:
            reporter.report(making.report_of(each))
    return tuple(_own(made[number], making.replica) for number in range(slices))


def _make_empty(
    spark: SparkSession, making: Making, schema: pa.Schema, missing: Sequence[int]
) -> dict[int, _Made]:
    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield _make(making, missing[place], schema, iter(()))

    return _collect(spark.range(0, len(missing), 1, len(missing)), make)


def _collect(
    df: DataFrame, make: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> dict[int, _Made]:
    """What tasks have made of its partitions, by slice."""
    answers = df.mapInArrow(make, MESSAGES).collect()
    made = [decode(bytes(row[0]), _Made) for row in answers]
    return {each.slice: each for each in made}


def _make(
    making: Making, number: int, schema: pa.Schema, tables: Iterator[pa.Table]
) -> pa.RecordBatch:
    with SliceWriter(making.storage, making.folder, number, schema) as writer:
        for table in tables:
            writer.add(table)
        written = writer.finish()
    made = _Made(number, this_host(), written.path, written.digest, written.rows, False)
    if making.reporter is not None:
        with suppress(HoldfastError, OSError):
            making.reporter.report(making.report_of(made))
            made = made._replace(told=True)
    settle()
    return messages([encode(made)])


def _own(made: _Made, replica: int) -> Agreed:
    return Agreed(made.digest, made.rows, (Holder(replica, made.host, made.path),))


def _checked(
    batches: Iterator[pa.RecordBatch], making: Making, schema: pa.Schema, label: int
) -> Iterator[pa.Table]:
    """The rows of a partition, which are those of the slice with this label and no others."""
    for batch in batches:
        *columns, labels = batch.columns
        if set(labels.unique().to_pylist()) - {label}:
            raise StoreError(
                f"stage {making.stage}: Spark has not kept the slices apart; use no rules of your "
                "own that change how rows are partitioned"
            )
        table = pa.Table.from_arrays(columns, names=schema.names).cast(schema)
        try:
            check_table(table)
        except WireError as error:
            raise InvalidArgumentError(
                f"stage {making.stage}: {error}; take make_valid_utf8(...) of texts that are no "
                "proper UTF-8, or cast them to binary"
            ) from None
        yield table
