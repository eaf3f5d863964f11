"""The four stages as one streaming query of Spark, which never changes.

Its source dispatches and fetches: it plans a batch of the log into tasks, in a Python process of
the driver. Its tasks operate. Its sink stores. So a batch of any number of streams, of any depth,
is one job, and a stream that nobody writes to is part of none.

Tasks get all they need with them: they neither see the store nor each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StreamingQuery

from holdfast.parties.whole_files import write_whole
from holdfast.protocol.composition.windows import NotBroughtError
from holdfast.tenants.engine.operating import Outcome, operate, read_outcome, write_outcome
from holdfast.tenants.engine.planning import Bundle, Planner, batch_end
from holdfast.tenants.engine.stages import StoredBatch
from holdfast.tenants.engine.storing import complete, progress, store
from holdfast.tenants.store.database import Database, open_database

__all__ = ["start_query", "write_place"]

NAME: Final = "holdfast-tenants"
PLACE: Final = "place"
"""The file that says where the store is: its address may hold a password, and plans are shown."""
PATIENCE: Final = 0.2
"""Seconds that Spark waits for a new entry before it is told that there is none."""
BREATH: Final = 0.005
SCHEMA: Final = (
    "start bigint, end bigint, outcome binary, bundle binary, "
    "dispatch double, fetch double, operate double"
)
_ARROW: Final = pa.schema(
    [
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("outcome", pa.binary()),
        # What a task could not do with what it had.
        ("bundle", pa.binary()),
        # Seconds: of the whole batch, and of this bundle.
        ("dispatch", pa.float64()),
        ("fetch", pa.float64()),
        ("operate", pa.float64()),
    ]
)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Bundle])
_BUNDLE = msgspec.msgpack.Decoder(Bundle)


def write_place(folder: Path, place: str) -> None:
    path = folder / PLACE
    path.touch(mode=0o600)
    write_whole(path, place.encode())
    path.chmod(0o600)


class LogSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> LogReader:  # noqa: N802
        return LogReader(Path(self.options["folder"]), int(self.options["tasks"]))


class LogReader(DataSourceStreamReader):
    def __init__(self, folder: Path, tasks: int) -> None:
        self._folder = folder
        self._tasks = tasks
        self._database: Database | None = None
        self._planner: Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What tasks get of it: nothing of the store."""
        return {"_folder": self._folder, "_tasks": 0, "_database": None, "_planner": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"position": progress(self._store)}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        deadline = time.monotonic() + PATIENCE
        while True:
            end = batch_end(self._store, start["position"])
            if end > start["position"] or time.monotonic() > deadline:
                return {"position": max(end, start["position"])}
            time.sleep(BREATH)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        if self._planner is None:
            self._planner = Planner(self._store)
        first, last = start["position"], end["position"]
        bundles = self._planner.plan(first, last)
        seconds = self._planner.seconds
        return [
            InputPartition((first, last, seconds, _ENCODER.encode(some)))
            for some in _divided(bundles, self._tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        start, end, seconds, packed = partition.value
        # Also a batch that nothing comes of has to be noted.
        made = [_operated(bundle) for bundle in _DECODER.decode(packed)] or [(None, None, 0.0)]
        outcomes, bundles, operated = map(list, zip(*made, strict=True))
        same = [start, end, seconds["dispatch"], seconds["fetch"]]
        first, last, dispatched, fetched = ([each] * len(made) for each in same)
        columns = [first, last, outcomes, bundles, dispatched, fetched, operated]
        yield from pa.table(columns, schema=_ARROW).to_batches()

    @property
    def _store(self) -> Database:
        if self._database is None:
            self._database = open_database((self._folder / PLACE).read_text())
        return self._database


def _operated(bundle: Bundle) -> tuple[bytes | None, bytes | None, float]:
    """What came of it, or the bundle, if more is needed for it than was brought along; and the
    seconds that took."""
    began = time.perf_counter()
    try:
        made, left = write_outcome(operate(bundle)), None
    except NotBroughtError:
        made, left = None, _ENCODER.encode(bundle)
    return made, left, time.perf_counter() - began


def _divided(bundles: list[Bundle], tasks: int) -> list[list[Bundle]]:
    """Among so many tasks, each with about as much to do; at least one."""
    shares: list[list[Bundle]] = [[] for _ in range(max(1, min(tasks, len(bundles))))]
    weights = [0] * len(shares)
    for bundle in sorted(bundles, key=lambda each: -len(each.entries) * (1 + len(each.nodes))):
        least = weights.index(min(weights))
        shares[least].append(bundle)
        weights[least] += len(bundle.entries) * (1 + len(bundle.nodes))
    return shares


def _counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    derived = sum(row.derived for outcome in outcomes for row in outcome.rows)
    return {
        "updates": sum(len(outcome.rows) for outcome in outcomes) - derived,
        "results": derived,
        "failures": sum(len(outcome.failures) for outcome in outcomes),
        "discarded": sum(outcome.discarded for outcome in outcomes),
    }


def start_query(
    spark: SparkSession,
    folder: Path,
    database: Database,
    stored: Callable[[StoredBatch], None],
    tasks: int = 2,
) -> StreamingQuery:
    """`folder` is where `write_place` wrote; `stored` is told of each batch."""
    spark.dataSource.register(LogSource)

    def sink(batch: DataFrame, _: int) -> None:
        rows = batch.collect()
        if not rows:
            return
        began = time.perf_counter()
        outcomes = [read_outcome(row.outcome) for row in rows if row.outcome is not None]
        outcomes += [
            complete(database, _BUNDLE.decode(row.bundle)) for row in rows if row.bundle is not None
        ]
        store(database, rows[0].start, rows[0].end, outcomes)
        seconds = {
            "dispatch": rows[0].dispatch,
            "fetch": rows[0].fetch,
            "operate": sum(row.operate for row in rows),
            "store": time.perf_counter() - began,
        }
        work = {path: steps for outcome in outcomes for path, steps in outcome.work.items()}
        stored(StoredBatch(rows[0].end, seconds, _counts(outcomes), work))

    source = spark.readStream.format(NAME).options(folder=str(folder), tasks=str(tasks)).load()
    return (
        source.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
