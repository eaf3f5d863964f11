"""The gate as a streaming source of Spark: what the replica has decided, entry by entry.

Spark asks how far the journal goes, in a Python process of the driver; its executors get the rows
from the replica's own server and check that they are those that were decided upon. The same offsets
always give the same rows.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.errors import StoreCorruptError
from holdfast.spark.stages.entries import Entry
from holdfast.spark.stages.journal import Journal
from holdfast.spark.stages.rows import AT, AT_ARROW, BODY, at_rows
from holdfast.spark.stages.states import split_state
from holdfast.wire.chunks import digest_of
from holdfast.wire.client import LogClient
from holdfast.wire.security import Security

__all__ = ["GateOptions", "GateSource", "journal_ticket", "read_journal_ticket"]

OPTIONS: Final = "gate.options"
PATIENCE: Final = 0.2
"""Seconds that Spark waits for a new entry before it is told that there is none."""
BREATH: Final = 0.005
PARTITION_ROWS: Final = 2**17
"""Rows for one task, about."""


def journal_ticket(entry: int, piece: int) -> bytes:
    return f"journal {entry} {piece}".encode()


def read_journal_ticket(ticket: bytes) -> tuple[int, int] | None:
    """The entry and the piece that a ticket asks for, None if it is no ticket for a journal."""
    match ticket.split():
        case [b"journal", entry, piece] if entry.isdigit() and piece.isdigit():
            return int(entry[:18]), int(piece[:18])
    return None


@dataclass(frozen=True)
class GateOptions:
    """All that the source has to know. It lies in the replica's folder, not in the query, where a
    token could be read by whoever can see the plan."""

    schema: StructType
    """With the hidden columns."""
    shards: tuple[int, ...]
    """The labels of the shards."""
    columns: tuple[tuple[str, ...], ...]
    """For each input, the columns of `schema` that its chunks fill after `stime`, in order."""
    address: tuple[str, int]
    """Of the replica's server."""
    security: Security | None

    def save(self, folder: Path) -> None:
        path = folder / OPTIONS
        path.touch(mode=0o600)
        path.write_bytes(pickle.dumps(self))

    @staticmethod
    def load(folder: Path) -> GateOptions:
        options = pickle.loads((folder / OPTIONS).read_bytes())
        assert isinstance(options, GateOptions)
        return options


@dataclass(frozen=True)
class _Fetch:
    entry: int
    piece: int
    input: int
    bucket: int
    rows: int
    digest: bytes


@dataclass(frozen=True)
class _Order:
    entry: int
    order: int
    end: int
    tentative: bool
    state: bytes


@dataclass(frozen=True)
class _Batch:
    """What one task reads."""

    rows: tuple[_Fetch, ...]
    orders: tuple[_Order, ...]


class GateSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "holdfast-gate"

    def schema(self) -> StructType:
        return GateOptions.load(self._folder).schema

    def streamReader(self, schema: StructType) -> GateReader:  # noqa: N802
        return GateReader(self._folder)

    @property
    def _folder(self) -> Path:
        return Path(self.options["folder"])


class GateReader(DataSourceStreamReader):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gate = GateOptions.load(folder)
        self.arrow = to_arrow_schema(self.gate.schema, timezone="UTC")

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"entry": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        journal = self._journal
        deadline = time.monotonic() + PATIENCE
        while (last := journal.last) <= start["entry"] and time.monotonic() < deadline:
            time.sleep(BREATH)
        return {"entry": max(last, start["entry"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        numbers = range(start["entry"] + 1, end["entry"] + 1)
        tasks = _plan([self._journal.read(number) for number in numbers])
        return [InputPartition(task) for task in tasks]

    def commit(self, end: dict[str, int]) -> None:
        self._journal.drop_to(end["entry"])

    @property
    def _journal(self) -> Journal:
        return Journal(self.folder / "journal")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        task: _Batch = partition.value
        if task.rows:
            with LogClient(self.gate.address, self.gate.security) as client:
                for wanted in task.rows:
                    yield from self._rows(client, wanted)
        if task.orders:
            yield self._orders(task.orders)

    def _rows(self, client: LogClient, wanted: _Fetch) -> Iterator[pa.RecordBatch]:
        table = client.fetch(journal_ticket(wanted.entry, wanted.piece))
        if digest_of(table) != wanted.digest:
            raise StoreCorruptError(
                f"piece {wanted.piece} of journal entry {wanted.entry} is not what was decided "
                "upon; start the replica with an empty folder"
            )
        at = at_rows(wanted.entry, wanted.input, wanted.bucket, wanted.rows)
        names = (table.schema.names[0], *self.gate.columns[wanted.input])
        given = dict(zip(names, table.columns, strict=True)) | {AT: at}
        columns = [
            given[field.name].cast(field.type)
            if field.name in given
            else pa.nulls(wanted.rows, field.type)
            for field in self.arrow
        ]
        yield from pa.table(columns, schema=self.arrow).to_batches(max_chunksize=PARTITION_ROWS)

    def _orders(self, orders: Sequence[_Order]) -> pa.RecordBatch:
        at, bodies = [], []
        for each in orders:
            states = split_state(each.state)
            for shard in self.gate.shards:
                at.append(
                    {
                        "entry": each.entry,
                        "order": each.order,
                        "shard": shard,
                        "bucket": each.end,
                        "place": int(each.tentative),
                    }
                )
                bodies.append(states.get(shard))
        given = {AT: pa.array(at, AT_ARROW), BODY: pa.array(bodies, pa.binary())}
        columns = [given.get(field.name, pa.nulls(len(at), field.type)) for field in self.arrow]
        return pa.record_batch(columns, schema=self.arrow)


def _plan(entries: Sequence[Entry]) -> list[_Batch]:
    """The tasks of a batch: whole pieces, a good many rows for each; orders go with the last."""
    tasks: list[list[_Fetch]] = [[]]
    rows = 0
    for entry in entries:
        for at, piece in enumerate(entry.pieces):
            chunk = piece.chunk
            if rows and rows + chunk.rows > PARTITION_ROWS:
                tasks.append([])
                rows = 0
            rows += chunk.rows
            tasks[-1].append(
                _Fetch(entry.number, at, piece.input, piece.bucket, chunk.rows, chunk.digest)
            )
    orders = tuple(
        _Order(each.number, int(each.order), each.end, each.tentative, each.state)
        for each in entries
    )
    last = len(tasks) - 1
    return [_Batch(tuple(t), orders if at == last else ()) for at, t in enumerate(tasks)]
