"""The output of a stage in slices: cut by a hash of the whole row, hashed, written and reported.

All of it happens in Spark's tasks, one for each slice. Which slice a row is of and where it stands
there depend on the rows alone: not on partitions, nor on retries, speculation or adaptive plans. A
task never waits for a verdict.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row

from holdfast.errors import HoldfastError, InvalidArgumentError, StoreError
from holdfast.protocol.verification import Agreed, Holder, Report, Run
from holdfast.spark.shards import shard_column, shard_labels
from holdfast.verify.canonical import canonical, canonical_schema
from holdfast.verify.slice_files import SliceWriter, Written
from holdfast.wire.errors import WireError
from holdfast.wire.untrusted import check_table

__all__ = ["HOST", "Making", "Reporter", "make_slices", "this_host"]

HOST: Final = "HOLDFAST_HOST"
"""Environment variable: what the host of a process is to be called in reports."""
_LABEL: Final = "holdfast slice"
_MADE: Final = "slice int, host string, path string, digest binary, rows bigint, told boolean"
_MADE_ARROW: Final = pa.schema(
    [
        ("slice", pa.int32()),
        ("host", pa.string()),
        ("path", pa.string()),
        ("digest", pa.binary()),
        ("rows", pa.int64()),
        ("told", pa.bool_()),
    ]
)


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
    reporter: Reporter
    """Of the tasks."""

    @property
    def folder(self) -> PurePosixPath:
        """In the storage."""
        run = f"{self.run.epoch}-{self.run.attempt}"
        return PurePosixPath(self.job, str(self.replica), self.stage, run)

    def report_of(self, made: Row) -> Report:
        return Report(
            job=self.job,
            stage=self.stage,
            run=self.run,
            slice=made.slice,
            replica=self.replica,
            host=made.host,
            path=made.path,
            digest=bytes(made.digest),
            rows=made.rows,
            basis=self.basis,
        )


def make_slices(
    df: DataFrame, slices: int, making: Making, reporter: Reporter
) -> tuple[Agreed, ...]:
    """Compute what a stage gives, write it and report it; its slices in order.

    Tasks report as soon as they can. What they could not bring goes through `reporter` in the end,
    and raises if it cannot be brought either.
    """
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

    made = {row.slice: row for row in rows.mapInArrow(make, _MADE).collect()}
    # Spark leaves out partitions where it knows that there is nothing in any.
    missing = sorted(set(range(slices)) - made.keys())
    if missing:
        made |= {row.slice: row for row in _make_empty(df, making, schema, missing).collect()}
    for row in made.values():
        if not row.told:
            reporter.report(making.report_of(row))
    return tuple(_own(made[number], making.replica) for number in range(slices))


def this_host() -> str:
    """What reports call the machine that this process runs on."""
    return os.environ.get(HOST) or os.environ.get("SPARK_LOCAL_HOSTNAME") or socket.gethostname()


def _make_empty(
    df: DataFrame, making: Making, schema: pa.Schema, missing: Sequence[int]
) -> DataFrame:
    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield _make(making, missing[place], schema, iter(()))

    places = df.sparkSession.range(0, len(missing), 1, len(missing))
    return places.mapInArrow(make, _MADE)


def _make(
    making: Making, number: int, schema: pa.Schema, tables: Iterator[pa.Table]
) -> pa.RecordBatch:
    with SliceWriter(making.storage, making.folder, number, schema) as writer:
        for table in tables:
            writer.add(table)
        written = writer.finish()
    row = _row(number, written)
    try:
        making.reporter.report(making.report_of(row))
    except (HoldfastError, OSError):
        row = Row(**{**row.asDict(), "told": False})
    return pa.RecordBatch.from_pylist([row.asDict()], _MADE_ARROW)


def _row(number: int, written: Written) -> Row:
    return Row(
        slice=number,
        host=this_host(),
        path=written.path,
        digest=written.digest,
        rows=written.rows,
        told=True,
    )


def _own(made: Row, replica: int) -> Agreed:
    holder = Holder(replica, made.host, made.path)
    return Agreed(bytes(made.digest), made.rows, (holder,))


def _checked(
    batches: Iterator[pa.RecordBatch], making: Making, schema: pa.Schema, label: int
) -> Iterator[pa.Table]:
    """The rows of a partition, which are those of the slice with this label and no others."""
    for batch in batches:
        *columns, labels = batch.columns
        if not pc.all(pc.equal(labels, label)).as_py():
            raise StoreError(
                f"stage {making.stage}: Spark has not kept the slices apart; use no rules of your "
                "own that change how rows are partitioned"
            )
        table = pa.table(columns, names=schema.names).cast(schema)
        try:
            check_table(table)
        except WireError as error:
            raise InvalidArgumentError(
                f"stage {making.stage}: {error}; take make_valid_utf8(...) of texts that are no "
                "proper UTF-8, or cast them to binary"
            ) from None
        yield table
