"""Query of a replica on Spark: takes entries of the journal, gives their results.

Used by the node. Results are handed over in the driver, once for each entry in the order of the
journal; after a restart an entry may be handed over again, with the same results.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.errors import StoreCorruptError
from holdfast.pipeline.stages.compile import Compiled
from holdfast.pipeline.stages.entries import Entry, Journal, Order, PieceReader, Wanted, divided
from holdfast.pipeline.stages.gate_source import GateOptions, GateSource
from holdfast.pipeline.stages.results import Result, result_of, results_in
from holdfast.pipeline.stages.rows import BODY, ENTRY, HIDDEN, PLACE, row_columns
from holdfast.pipeline.stages.steps import apply_to_rows
from holdfast.spark.columns import column_named
from holdfast.spark.partials import shard_labels
from holdfast.spark.sessions import DRIVER_GONE
from holdfast.storage.atomic_file import make_folder
from holdfast.transport.security import Security

__all__ = ["Effort", "Handover", "Result", "StageQuery", "is_possible"]


class Effort(StreamingQueryListener):
    """Adds up the batches that end from now on; Spark tells of each in a thread of its own."""

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self.seconds = 0.0
        self._spark = spark
        self._query = str(query.id)
        spark.streams.addListener(self)

    def close(self) -> None:
        self._spark.streams.removeListener(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing has been done."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        if str(event.progress.id) == self._query:
            self.seconds += event.progress.durationMs.get("triggerExecution", 0) / 1000

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing has been done."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """What was done stands."""


# Rows of an entry as files that Spark reads by itself, where its tasks run in the node's own JVM.
#
# Steps that look at each row alone need nothing but the rows and their places, so they are spared
# the way through Python workers: of the gate source the query takes only which entries a batch has,
# and asks here for what comes of their rows. The journal stays what decides. Files are made of an
# entry when its batch is run, and made again if that is run again.

GROUP_ROWS: Final = 2**17
"""In one group of a file, about."""


def is_possible(spark: SparkSession, compiled: Compiled) -> bool:
    """Whether tasks see the node's files, and no step needs more than Spark."""
    master = str(spark.sparkContext.master)
    return compiled.row_steps is not None and (master == "local" or master.startswith("local["))


class Handover:
    """Carries out the steps of a stage on the rows of an entry."""

    def __init__(self, compiled: Compiled, folder: Path, reader: PieceReader, tasks: int) -> None:
        """`folder`: for files, which are nobody else's. `tasks`: that can run at a time."""
        assert compiled.row_steps is not None
        self._steps = compiled.row_steps
        self._folder = folder
        self._reader = reader
        own = compiled.inputs[0]
        self._names = [PLACE, *own.names]
        # Numbers in the place of names, in which case would not count.
        numbered = [StructField(f"c{at + 1}", field.dataType) for at, field in enumerate(own)]
        self._schema = StructType([StructField("c0", LongType()), *numbered])
        self._arrow = to_arrow_schema(self._schema, timezone="UTC")
        self._tasks = tasks

    def rows(self, spark: SparkSession, entry: Entry) -> pa.Table:
        """What comes of the rows of an entry: where they come from, and the stream's columns."""
        wanted = [Wanted(entry.number, at, piece) for at, piece in enumerate(entry.pieces)]
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        parts = divided(wanted, self._tasks)
        paths = [str(self._folder / f"{at}.parquet") for at in range(len(parts))]
        with ThreadPoolExecutor(len(parts)) as threads:
            list(threads.map(self._write, parts, paths))
        # The files have all days as they are, those before 1582 too.
        reader = spark.read.option("datetimeRebaseMode", "CORRECTED")
        made = self._through(reader.schema(self._schema).parquet(*paths)).toArrow()
        shutil.rmtree(self._folder, ignore_errors=True)
        return made.add_column(0, ENTRY, pa.array(np.full(len(made), entry.number)))

    def _through(self, df: DataFrame) -> DataFrame:
        df = df.select(*(F.col(f"c{at}").alias(name) for at, name in enumerate(self._names)))
        for step in self._steps:
            df = apply_to_rows(df, step)
        return df

    def _write(self, wanted: Sequence[Wanted], path: str) -> None:
        with pq.ParquetWriter(
            path, self._arrow, compression="none", use_dictionary=False, write_statistics=False
        ) as file:
            waiting: list[pa.Table] = []
            for each in wanted:
                waiting.append(self._table(each))
                if sum(map(len, waiting)) >= GROUP_ROWS or each is wanted[-1]:
                    file.write_table(pa.concat_tables(waiting))
                    waiting = []

    def _table(self, wanted: Wanted) -> pa.Table:
        piece, table = wanted.piece, self._reader.read(wanted)
        places = row_columns(wanted.entry, piece.input, piece.bucket, len(table))[PLACE]
        columns = [places, *table.columns]
        cast = [column.cast(each.type) for column, each in zip(columns, self._arrow, strict=True)]
        return pa.table(cast, schema=self._arrow)


PARTITIONS: Final = "spark.sql.shuffle.partitions"
BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_LIMIT: Final = 2**31 - 1
"""With any other one Spark calculates the size of a batch anew for every row that goes to Python.
Batches are limited in rows anyway."""
RECORDS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
MOST_ROWS: Final = 2**16
PLAN: Final = "=== Streaming Query ==="
"""After these words an error of a query says what the query is."""
SIGNS: Final = (
    StoreCorruptError.__name__,
    "STATE_STORE",
    "StateStore",
    "STREAMING_CHECKPOINT",
    "log file",
    "offset log",
    "commit log",
    "doesn't exist",
    "com.fasterxml.jackson",
    "org.json4s",
)
"""An error with one of these is one of files that do not fit."""
SURROUNDINGS: Final = tuple(
    map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EMFILE))
)
"""An error with one of these names a file that may be right."""


class StageQuery:
    """One streaming query, with its journal and checkpoint in a folder."""

    def __init__(
        self,
        spark: SparkSession,
        compiled: Compiled,
        folder: Path,
        *,
        size: int,
        shards: int,
        address: tuple[str, int],
        security: Security | None,
        deliver: Callable[[Result], None],
    ) -> None:
        """`size`: of a bucket. `address`: of the server that gives out the rows of the journal.
        `deliver` is called in a thread of Spark."""
        make_folder(folder / "journal")
        self.journal = Journal(folder / "journal")
        self._compiled = compiled
        self._size = size
        self._deliver = deliver
        self._rows = 0
        self._schema = to_arrow_schema(compiled.published, timezone="UTC")
        self._checkpoint = folder / "checkpoint"
        self._check_journal()
        tasks = max(1, spark.sparkContext.defaultParallelism)
        self._handover: Handover | None = None
        if is_possible(spark, compiled):
            reader = PieceReader(address, security)
            self._handover = Handover(compiled, folder / "handed-over", reader, tasks)
        GateOptions(
            compiled.gate,
            tuple(shard_labels(shards)),
            compiled.columns,
            address,
            security,
            compiled.pack,
            tasks,
        ).save(folder)
        spark.dataSource.register(GateSource)
        source = spark.readStream.format(GateSource.name()).option("folder", str(folder)).load()
        writer = (
            _narrowed(compiled.build(source), stateful=compiled.stateful)
            .writeStream.foreachBatch(self._take_batch)
            .option("checkpointLocation", str(self._checkpoint))
            .outputMode("update")
        )
        try:
            self._query = _start(spark, shards, writer.start)
        except (PySparkException, Py4JJavaError) as error:
            # Without the Java stack, which names classes of files whatever has failed.
            said = str(error.java_exception if isinstance(error, Py4JJavaError) else error)
            if not self._is_of_files(said):
                raise
            raise StoreCorruptError(f"{self._checkpoint}: {said}") from error
        self._effort = Effort(spark, self._query)

    def _check_journal(self) -> None:
        """Raise an error if the journal has lost what Spark has planned: a new entry would get the
        number of another one, and the query would wait for ever or take the one for the other."""
        batches = [int(path.name) for path in self._checkpoint.glob("offsets/[0-9]*")]
        planned = 0
        # What cannot be read is damage, of which Spark tells.
        with suppress(OSError, ValueError, LookupError, TypeError):
            planned = self._end_of(max(batches, default=-1))
        if planned > self.journal.last:
            raise StoreCorruptError(
                f"{self.journal.folder}: entry {self.journal.last} is the last of the journal, and "
                f"Spark has planned entry {planned}; start the replica with an empty folder, it "
                "gets its state from a peer or its inputs"
            )

    def submit(self, entry: Entry) -> int:
        """Have an entry carried out; answers its number."""
        return self.journal.append(entry).number

    @property
    def failure(self) -> str | None:
        """Why the query has stopped, if it has."""
        try:
            if self._query.isActive:
                return None
            error = self._query.exception()
        except DRIVER_GONE:
            return "Spark's driver has ended"
        return "the query has stopped" if error is None else str(error)

    @property
    def is_damaged(self) -> bool:
        """Whether it has stopped because its journal, checkpoint or state cannot be read, or do not
        fit each other."""
        failure = self.failure
        return failure is not None and self._is_of_files(failure)

    def _is_of_files(self, failure: str) -> bool:
        """Whether it says that files are damaged, missing or too old. The plan that Spark adds
        names the checkpoint whatever has failed."""
        said = failure.partition(PLAN)[0]
        if any(cause in said for cause in SURROUNDINGS):
            return False
        return str(self._checkpoint) in said or any(sign in said for sign in SIGNS)

    @property
    def progress(self) -> dict[str, Any] | None:
        """What Spark says of the last batch; of all: `busySeconds`, and `inputRows` that are final
        and done."""
        with suppress(*DRIVER_GONE):
            said = self._query.lastProgress
            if said is not None:
                totals = {"busySeconds": self._effort.seconds, "inputRows": self._rows}
                return {**json.loads(said.json), **totals}
        return None

    def stop(self) -> None:
        with suppress(StreamingQueryException, *DRIVER_GONE):
            self._effort.close()
            self._query.stop()

    def _take_batch(self, df: DataFrame, batch: int) -> None:
        for result in self._results(df, batch):
            self._deliver(result)
            if result.order is Order.WORK:
                entry = self.journal.read(result.entry)
                if not entry.tentative:
                    self._rows += sum(piece.chunk.rows for piece in entry.pieces)

    def _results(self, df: DataFrame, batch: int) -> Iterator[Result]:
        if self._handover is None:
            table = self._compiled.open(df.toArrow())
            yield from results_in(table, self._schema, self._size)
            return
        for number in range(self._end_of(batch - 1) + 1, self._end_of(batch) + 1):
            entry = self.journal.read(number)
            made = self._handover.rows(df.sparkSession, entry) if entry.pieces else None
            yield result_of(entry, made, self._schema, self._size)

    def _end_of(self, batch: int) -> int:
        """The last entry in a batch: Spark notes the offsets of the gate source before it runs
        one, and finds them again after a restart."""
        if batch < 0:
            return 0
        noted = (self._checkpoint / "offsets" / str(batch)).read_text().splitlines()
        return int(json.loads(noted[-1])["entry"])


def _narrowed(df: DataFrame, *, stateful: bool) -> DataFrame:
    """Rows with no more than `results_in` needs: every column costs time on its way to it."""
    if ENTRY not in df.columns:
        return df
    bodies = [BODY] if stateful else []
    own = [column_named(name) for name in df.columns if name not in HIDDEN]
    return df.select(ENTRY, PLACE, *bodies, *own)


def _start(spark: SparkSession, shards: int, start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query with a partition for each shard, whatever the session has for others."""
    wanted = {PARTITIONS: shards, BYTES: NO_LIMIT, RECORDS: MOST_ROWS}
    former = {setting: str(spark.conf.get(setting)) for setting in wanted}
    for setting, value in wanted.items():
        spark.conf.set(setting, str(value))
    try:
        return start()
    finally:
        for setting, before in former.items():
            spark.conf.set(setting, before)
