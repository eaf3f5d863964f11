"""Rows per second through the gate and the log of a replica, and by Spark alone.

Both have the same session, files, batches and steps, and take turns. A source, in a process of its
own, has logged the files before anything is measured. The replica's log keeps every row, so Spark
alone writes Parquet; what it does when the rows go nowhere is there for information.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pyspark.sql import SparkSession

from benchmarks.nodes.backlog import FILES, SCHEMA, SECOND, Backlog, write_backlog
from benchmarks.nodes.queries import QUERIES, Query
from benchmarks.nodes.scale import Scale
from benchmarks.processes import usage_of
from benchmarks.report import Report
from benchmarks.timing import Spread
from harness.ports import free_port
from harness.waiting import wait_for
from holdfast.errors import HoldfastError
from holdfast.pipeline.process.replica import Replica
from holdfast.pipeline.topology import Topology
from holdfast.spark.sessions import local_session
from holdfast.transport.client import act

__all__ = ["Batch", "Rate", "batches_between", "report_rates"]

PATIENCE: Final = 300
LOOK: Final = 0.005
"""Seconds between two looks at how far a replica has come."""
BOUND: Final = 0.7
HOLDFAST, PARQUET, NOWHERE = "gate and log", "Spark alone to Parquet", "Spark alone to nowhere"
GIANT = "Spark alone to nowhere, one batch"


@dataclass(frozen=True)
class Batch:
    rows: float
    seconds: float


@dataclass(frozen=True)
class Rate:
    """Of one run, after the batches that warm up."""

    rows_per_second: float
    cpu: float
    """Seconds of all processes for a million rows, over the whole run."""

    @classmethod
    def of(cls, batches: Sequence[Batch], cpu: float, rows: int) -> Rate:
        """`cpu`: that all `rows` of the run have taken, those of `batches` among them."""
        measured = sum(each.rows for each in batches) / sum(each.seconds for each in batches)
        return cls(measured, cpu / rows * 1e6)


def report_rates(report: Report, scale: Scale) -> None:
    with TemporaryDirectory(prefix="holdfast-nodes-") as folder:
        data = Path(folder) / "rows"
        write_backlog(data, scale.backlog)
        spark = local_session("nodes", master="local[2]")
        try:
            with served(Path(folder), data, scale.backlog) as (topology, source):
                bench = _Bench(spark, topology, source, data, scale)
                for query in QUERIES:
                    _report_query(report, bench, query)
        finally:
            spark.stop()


def _report_query(report: Report, bench: _Bench, query: Query) -> None:
    rates: dict[str, list[Rate]] = {name: [] for name in (HOLDFAST, PARQUET, NOWHERE, GIANT)}
    # The JVM compiles what it sees often: the first rounds are for that.
    for _ in range(bench.scale.warm_rounds):
        for name in (HOLDFAST, PARQUET):
            bench.run(name, query)
    for _ in range(bench.scale.rounds):
        for name, some in rates.items():
            some.append(bench.run(name, query))
            report.progress(f"{query.name}, {name}: {some[-1].rows_per_second:,.0f} rows/s")
    backlog = bench.scale.backlog
    report.table(
        f"{query.words}: {backlog.rows:,} rows, {backlog.rows_per_batch:,} in a batch",
        ["way", "rows/s", "lowest", "highest", "CPU seconds per million rows", "gate and log is"],
        [
            [name, spread.median, spread.low, spread.high, cpu.median, ratio.median]
            for name, some in rates.items()
            for spread in [Spread.of([each.rows_per_second for each in some])]
            for cpu in [Spread.of([each.cpu for each in some])]
            for ratio in [ratio_of(rates[HOLDFAST], some)]
        ],
    )
    ratio = ratio_of(rates[HOLDFAST], rates[PARQUET])
    report.claim(
        f"rows/s through gate and log, {query.words}",
        ratio.median,
        BOUND,
        "the same query from Parquet to Parquet by Spark alone",
        spread=ratio.range,
    )


def ratio_of(rates: Sequence[Rate], peers: Sequence[Rate]) -> Spread:
    """How many times the peer's rate, round by round."""
    pairs = zip(rates, peers, strict=True)
    return Spread.of([mine.rows_per_second / theirs.rows_per_second for mine, theirs in pairs])


@contextmanager
def served(folder: Path, data: Path, backlog: Backlog) -> Iterator[tuple[Topology, int]]:
    """The topology whose source has logged all the rows, and the source's process."""
    file = folder / "backlog.toml"
    file.write_text(topology_text(data))
    topology = Topology.read(file)
    address = topology.parties()["readings"].address
    assert address is not None
    command = [sys.executable, "-m", "holdfast", "node", str(file), "readings"]
    said = folder / "readings.log"
    with said.open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def has_logged() -> bool:
        assert process.poll() is None, said.read_text()[-2000:]
        try:
            status = json.loads(act(address, None, "status", timeout=3))
        except HoldfastError:
            return False
        return bool(status["boundary"] >= backlog.end)

    try:
        wait_for("the source to log all rows", has_logged, PATIENCE)
        yield topology, process.pid
    finally:
        process.terminate()
        process.wait()


def topology_text(data: Path) -> str:
    """All queries on one stream. Since the source keeps what one of its readers has not read, and
    only one of them runs at a time, each finds all of it."""
    lines = [
        'name = "backlog"',
        'bucket = "1s"',
        "[streams.readings]",
        'source = "files"',
        f"path = {json.dumps(str(data))}",
        'format = "parquet"',
        "follow = false",
        f'address = "127.0.0.1:{free_port()}"',
        'schema = { at = "timestamp", sensor = "string", value = "bigint" }',
        'time = "at"',
    ]
    for query in QUERIES:
        lines += [
            f"[stages.{query.name}]",
            'inputs = ["readings"]',
            f'replicas = ["127.0.0.1:{free_port()}"]',
            'policy = "order"',
            f"steps = {query.steps}",
        ]
    return "\n".join(lines)


@dataclass(frozen=True)
class _Bench:
    spark: SparkSession
    topology: Topology
    source: int
    """The process of the source."""
    data: Path
    scale: Scale

    def run(self, way: str, query: Query) -> Rate:
        before = usage_of(os.getpid()).cpu
        batches = self._by_holdfast(query) if way == HOLDFAST else self._by_spark(way, query)
        return Rate.of(batches, usage_of(os.getpid()).cpu - before, self.scale.backlog.rows)

    def _by_holdfast(self, query: Query) -> list[Batch]:
        """A replica that begins anew, on all that the source has."""
        name = f"{query.name}/1"
        shutil.rmtree(self.topology.state_folder / name, ignore_errors=True)
        replica = Replica(self.topology, name, self.spark)
        try:
            passed = _watch(replica, self.scale.backlog.end)
        finally:
            replica.close()
        return batches_between(passed, self.scale.backlog, self.scale.warm_batches)

    def _by_spark(self, way: str, query: Query) -> list[Batch]:
        with TemporaryDirectory(prefix="holdfast-nodes-") as out:
            files = 1_000_000 if way == GIANT else FILES
            reader = self.spark.readStream.option("maxFilesPerTrigger", files).schema(SCHEMA)
            writer = query.on_spark(reader.parquet(str(self.data))).writeStream.outputMode("append")
            if way == PARQUET:
                writer = writer.format("parquet").option("path", f"{out}/rows")
            else:
                writer = writer.format("noop")
            writer = writer.option("checkpointLocation", f"{out}/checkpoint")
            running = writer.trigger(availableNow=True).start()
            assert running.awaitTermination(PATIENCE), f"{way}: takes too long"
            # The last batch only lets the watermark close what is open.
            batches = [
                Batch(each.numInputRows, each.batchDuration / 1000)
                for each in running.recentProgress
                if each.numInputRows
            ]
        return batches if way == GIANT else batches[self.scale.warm_batches :]


def _watch(replica: Replica, end: int) -> list[tuple[float, int]]:
    """When its log had come to which boundary."""
    passed: list[tuple[float, int]] = []
    deadline = time.monotonic() + PATIENCE
    while not passed or passed[-1][1] < end:
        assert replica.failure is None, replica.failure
        assert time.monotonic() < deadline, f"{replica.name}: has come to {passed[-1:]} only"
        time.sleep(LOOK)
        boundary = replica.counts.boundary
        if boundary > (passed[-1][1] if passed else 0):
            passed.append((time.monotonic(), boundary))
    return passed


def batches_between(
    passed: Sequence[tuple[float, int]], backlog: Backlog, warm: int
) -> list[Batch]:
    """What was logged from one moment to the next, without the first `warm` batches."""
    start = backlog.start + warm * backlog.span
    measured = [each for each in passed if each[1] >= start]
    return [
        Batch((until - since) / SECOND * backlog.rows_per_bucket, end - begin)
        for (begin, since), (end, until) in pairwise(measured)
    ]
