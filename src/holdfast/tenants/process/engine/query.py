"""The four stages as one streaming query of Spark, which never changes.

Its source dispatches and fetches: it plans a batch of the log into tasks, in a Python process of
the driver. Its tasks operate. Its sink stores. So a batch of any number of streams, of any depth,
is one job, and a stream that nobody writes to is part of none.

Tasks get all they need with them: they neither see the store nor each other.
"""

from __future__ import annotations

import gc
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StreamingQuery

from holdfast.storage.atomic_file import write_whole
from holdfast.tenants.machine.windows import NotBroughtError
from holdfast.tenants.process.engine.operating import Outcome, operate, read_outcome, write_outcome
from holdfast.tenants.process.engine.planning import Bundle, Planner
from holdfast.tenants.process.engine.storing import (
    IncompleteBatchError,
    StoredBatch,
    complete,
    last_batch,
    store,
)
from holdfast.tenants.process.store.database import Database, open_database

NAME: Final = "holdfast-tenants"
PLACE: Final = "place"
"""The file that says where the store is: its address may hold a password, and plans are shown."""
COMPILING: Final = "spark.sql.codegen.wholeStage"
PATIENCE: Final = 0.2
"""Seconds that Spark waits for a new entry before it is told that there is none."""
BREATH: Final = 0.005
YOUNG: Final = 100_000
"""New objects after which the process that plans looks for garbage."""
CELL: Final = 1 << 20
"""Bytes of one cell: what came of a bundle is handed over in as many as it takes."""
SCHEMA: Final = (
    "batch bigint, bundles bigint, bundle bigint, cells bigint, cell bigint, is_left boolean, "
    "data binary, dispatch double, fetch double, operate double"
)
_ARROW: Final = pa.schema(
    [
        ("batch", pa.int64()),
        # How many there are in the batch, and which one this is.
        ("bundles", pa.int64()),
        ("bundle", pa.int64()),
        ("cells", pa.int64()),
        ("cell", pa.int64()),
        # The bundle itself, which a task could not do with what it had; else what came of it.
        ("is_left", pa.bool_()),
        ("data", pa.binary()),
        # Seconds: of the whole batch, and of this bundle.
        ("dispatch", pa.float64()),
        ("fetch", pa.float64()),
        ("operate", pa.float64()),
    ]
)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[tuple[int, Bundle]])
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
        options = self.options
        return LogReader(Path(options["folder"]), int(options["tasks"]), int(options["caution"]))


class LogReader(DataSourceStreamReader):
    def __init__(self, folder: Path, tasks: int, caution: int) -> None:
        self._folder = folder
        self._tasks = tasks
        self._caution = caution
        self._database: Database | None = None
        self._planner: Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What tasks get of it: nothing of the store."""
        given = {"_folder": self._folder, "_tasks": 0, "_caution": 0}
        return {**given, "_database": None, "_planner": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": last_batch(self._store)}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        deadline = time.monotonic() + PATIENCE
        following = start["batch"] + 1
        while not self._plans.record(following):
            if time.monotonic() > deadline:
                return start
            time.sleep(BREATH)
        return {"batch": following}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        batch = end["batch"]
        bundles = self._plans.plan(batch)
        seconds = self._plans.seconds
        return [
            InputPartition((batch, len(bundles), seconds, _ENCODER.encode(some)))
            for some in _divided(list(enumerate(bundles)), self._tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch, bundles, seconds, packed = partition.value
        given = _DECODER.decode(packed)
        spent = (seconds["dispatch"], seconds["fetch"])
        if not given:
            # Also a batch that nothing comes of has to be noted.
            yield _cell(batch, bundles, -1, 1, 0, False, b"", *spent, 0.0)
        for number, bundle in given:
            is_left, data, took = _operated(bundle)
            cells = [data[at : at + CELL] for at in range(0, len(data), CELL)]
            for at, cell in enumerate(cells):
                said = took if at == 0 else 0.0
                yield _cell(batch, bundles, number, len(cells), at, is_left, cell, *spent, said)

    @property
    def _plans(self) -> Planner:
        if self._planner is None:
            # Entries of a batch are many and live until it is planned: to look through them after
            # each few hundred takes longer than all there is to free.
            gc.set_threshold(YOUNG)
            self._planner = Planner(self._store, caution=self._caution)
        return self._planner

    @property
    def _store(self) -> Database:
        if self._database is None:
            self._database = open_database((self._folder / PLACE).read_text())
        return self._database


def _cell(*values: Any) -> pa.RecordBatch:
    columns = [pa.array([value], field.type) for value, field in zip(values, _ARROW, strict=True)]
    return pa.record_batch(columns, schema=_ARROW)


def _operated(bundle: Bundle) -> tuple[bool, bytes, float]:
    """The outcome, or the bundle, if more is needed for it than was brought along; and the
    seconds that took."""
    began = time.perf_counter()
    try:
        is_left, data = False, write_outcome(operate(bundle))
    except NotBroughtError:
        is_left, data = True, _ENCODER.encode(bundle)
    return is_left, data, time.perf_counter() - began


def _divided(bundles: list[tuple[int, Bundle]], tasks: int) -> list[list[tuple[int, Bundle]]]:
    """Among so many tasks, each with about as much to do; at least one."""
    shares: list[list[tuple[int, Bundle]]] = [[] for _ in range(max(1, min(tasks, len(bundles))))]
    weights = [0] * len(shares)

    def weight(bundle: Bundle) -> int:
        return bundle.count * (1 + len(bundle.nodes))

    for each in sorted(bundles, key=lambda each: -weight(each[1])):
        least = weights.index(min(weights))
        shares[least].append(each)
        weights[least] += weight(each[1])
    return shares


def _gathered(number: int, rows: Sequence[Any], database: Database) -> list[Outcome]:
    """The outcomes of a batch, put together from their cells; raises if any is missing. Spark
    hands over nothing where the thread that serves the rows has run out of memory."""
    cells: defaultdict[int, dict[int, Any]] = defaultdict(dict)
    for row in rows:
        cells[row.bundle][row.cell] = row
    wanted = set(range(rows[0].bundles)) or {-1} if rows else None
    if set(cells) != wanted or any(
        set(some) != set(range(some[min(some)].cells)) for some in cells.values()
    ):
        raise IncompleteBatchError(
            f"batch {number}: Spark handed over {len(rows)} cells, not all of them; it is run again"
        )
    outcomes = []
    for bundle in sorted(cells.keys() - {-1}):
        some = cells[bundle]
        data = b"".join(bytes(some[at].data) for at in range(len(some)))
        if some[0].is_left:
            outcomes.append(complete(database, _BUNDLE.decode(data)))
        else:
            outcomes.append(read_outcome(data))
    return outcomes


def _counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    return {
        "updates": sum(len(outcome.positions) for outcome in outcomes),
        "results": sum(outcome.results for outcome in outcomes),
        "failures": sum(len(outcome.failures) for outcome in outcomes),
        "discarded": sum(outcome.discarded for outcome in outcomes),
    }


def start_query(
    spark: SparkSession,
    folder: Path,
    database: Database,
    stored: Callable[[StoredBatch], None],
    tasks: int | None = None,
    caution: int = 0,
) -> StreamingQuery:
    """`folder` is where `write_place` wrote; `stored` is told of each batch. Without `tasks` there
    are as many as the master has cores. `caution` makes batches smaller (`engine.caution`).

    The database says how far all is; the checkpoint of an earlier query is thrown away, so the two
    cannot disagree. A batch that was recorded and not stored is the first to run."""
    spark.dataSource.register(LogSource)
    checkpoint = folder / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)

    def sink(batch: DataFrame, _: int) -> None:
        rows = batch.collect()
        began = time.perf_counter()
        number = rows[0].batch if rows else last_batch(database) + 1
        outcomes = _gathered(number, rows, database)
        plan = store(database, number, outcomes)
        if plan is None:
            return
        seconds = {
            "dispatch": rows[0].dispatch,
            "fetch": rows[0].fetch,
            "operate": sum(row.operate for row in rows),
            "store": time.perf_counter() - began,
        }
        work = {path: steps for outcome in outcomes for path, steps in outcome.work.items()}
        stored(StoredBatch(plan.settled, plan.cursors, seconds, _counts(outcomes), work))

    width = spark.sparkContext.defaultParallelism if tasks is None else tasks
    options = {"folder": str(folder), "tasks": str(width), "caution": str(caution)}
    source = spark.readStream.format(NAME).options(**options).load()
    writer = source.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    # A scan and nothing else: to compile it for each batch takes longer than it saves. The query
    # has the settings of the session as they are when it starts.
    before = str(spark.conf.get(COMPILING))
    spark.conf.set(COMPILING, "false")
    try:
        return writer.start()
    finally:
        spark.conf.set(COMPILING, before)
