"""A windowed job and the process that runs it, `python -m soak.jobs.job`.

The campaign `spark_windows` and the live tests start it on a master of their choice: embedded, a
cluster, Spark Connect.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.types import StructType

from harness.processes import Family, spark_environment
from holdfast.spark.sessions import STREAMING, local_session
from soak.jobs.case import Case

__all__ = ["EMBEDDED", "SINKS", "STATIC", "Job", "start"]

EMBEDDED = "local[2,10]"
"""Two threads. A task may fail nine times: Spark hands it workers that were killed when idle."""
STATIC = "static"
"""In place of a trigger: all rows at once."""
SINKS = ("files", "batches")
"""Spark's own sink of Parquet files, which passes over a batch that it has when it is repeated; and
one written with `foreachBatch`, which replaces it."""


@dataclass(frozen=True)
class Job:
    """A case that runs in a folder, from the start or from where it was when it was killed."""

    case: Case
    home: Path
    """All jobs of a home read the same rows."""
    name: str
    trigger: str = "available"
    """`available`, a time between batches, or `static`."""
    kind: str = SINKS[0]

    @property
    def rows(self) -> Path:
        return self.home / "rows"

    @property
    def folder(self) -> Path:
        return self.home / self.name

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def sink(self) -> Path:
        return self.folder / "sink"

    @property
    def late(self) -> Path:
        return self.folder / "late"

    def answers(self) -> pa.Table:
        return pq.read_table(self.folder / "answers.parquet")

    def late_rows(self) -> pa.Table:
        return pq.read_table(self.folder / "late-rows.parquet")

    def run(self, spark: SparkSession) -> None:
        self.late.mkdir(parents=True, exist_ok=True)
        rows = spark.read.parquet(str(self.rows))
        if self.trigger == STATIC:
            # One partition: sums depend on the order of rows in their last bits.
            answers = self.case.over(rows.coalesce(1))
        else:
            self._stream(spark, rows.schema)
            answers = self._read_sink(spark)
        late = spark.read.schema(rows.schema).parquet(str(self.late))
        pq.write_table(answers.toArrow(), self.folder / "answers.parquet")
        pq.write_table(late.toArrow(), self.folder / "late-rows.parquet")

    def _stream(self, spark: SparkSession, schema: StructType) -> None:
        rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        stream = rows.parquet(str(self.rows)).withWatermark("ts", f"{self.case.delay} microseconds")
        writer = self._into_sink(self.case.over(stream, str(self.late)).writeStream).option(
            "checkpointLocation", str(self.checkpoint)
        )
        if self.trigger == "available":
            writer.trigger(availableNow=True).start().awaitTermination()
            return
        query = writer.trigger(processingTime=self.trigger).start()
        query.processAllAvailable()
        query.stop()

    def _into_sink(self, writer: DataStreamWriter) -> DataStreamWriter:
        if self.kind == "files":
            return writer.format("parquet").option("path", str(self.sink))

        def replace(answers: DataFrame, batch: int) -> None:
            answers.write.mode("overwrite").parquet(str(self.sink / str(batch)))

        return writer.foreachBatch(replace)

    def _read_sink(self, spark: SparkSession) -> DataFrame:
        if self.kind == "files":
            # As a user does: Spark goes by its log, not by what lies there.
            return spark.read.parquet(str(self.sink))
        return spark.read.parquet(*(str(batch) for batch in self.sink.iterdir()))

    def has_sunk(self, batch: int) -> bool:
        """Whether the answers of a batch are in the sink for good."""
        if self.kind == "files":
            return (self.sink / "_spark_metadata" / str(batch)).exists()
        return (self.sink / str(batch) / "_SUCCESS").exists()

    def batches(self) -> list[tuple[int, str]]:
        """The watermark of each batch and where in the rows it ends, as Spark has planned them."""
        plans = sorted(
            (self.checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)
        )
        lines = [path.read_text().splitlines() for path in plans]
        return [(json.loads(about)["batchWatermarkMs"], end) for _, about, end in lines]


def start(
    jobs: Sequence[Job], master: str = EMBEDDED, settings: Mapping[str, str] | None = None
) -> Family:
    """Run jobs of one case one after the other, in a process of their own."""
    case, home = jobs[0].case, jobs[0].home
    submit = [f"--conf {name}={value}" for name, value in (settings or {}).items()]
    environment = spark_environment(home)
    environment["PYSPARK_SUBMIT_ARGS"] = " ".join([*submit, "pyspark-shell"])
    command = [sys.executable, "-m", __name__, str(case.seed), str(case.files), str(home), master]
    command += [f"{job.name}={job.trigger}={job.kind}" for job in jobs]
    return Family(command, home, environment, log=f"{jobs[0].name}.log")


def _session(master: str) -> SparkSession:
    if not master.startswith("sc://"):
        return local_session("window job", master=master)
    spark = SparkSession.builder.remote(master).getOrCreate()
    for setting, value in STREAMING.items():
        spark.conf.set(setting, value)
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark


def main(arguments: list[str]) -> None:
    seed, files, home, master, *jobs = arguments
    case = Case(int(seed), int(files))
    spark = _session(master)
    for job in jobs:
        Job(case, Path(home), *job.split("=")).run(spark)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
