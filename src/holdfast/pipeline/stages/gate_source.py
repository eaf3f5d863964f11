"""The gate as a streaming source of Spark: decisions of the replica, entry by entry.

Spark asks how far the journal goes, in a Python process of the driver; its executors get the rows
that were decided upon. The same offsets always give the same rows. If a window is all that comes
next, rows are packed for it at once and never go through Spark themselves.
"""

from __future__ import annotations

import ctypes
import os
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
from holdfast.pipeline.stages.entries import Entry, Journal, Piece, PieceReader, Wanted, divided
from holdfast.pipeline.stages.operator import PACKED, order_body
from holdfast.pipeline.stages.rows import (
    PackChunk,
    order_columns,
    packed_orders,
    packed_rows,
    row_columns,
)
from holdfast.transport.security import Security

OPTIONS: Final = "gate.options"
PATIENCE: Final = 0.2
"""Seconds that Spark waits for a new entry before it is told that there is none."""
BREATH: Final = 0.005
KEPT: Final = 64
"""So many entries that are done are dropped at once, after one wait for the disk."""
BATCH_ROWS: Final = 2**17
"""Rows that go to Spark at once, at most."""


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
    pack: PackChunk | None
    """If rows are to be packed for the state of the stage where they are read."""
    tasks: int
    """So many can run at a time."""

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
class _Order:
    entry: int
    order: int
    end: int
    tentative: bool
    state: bytes


@dataclass(frozen=True)
class _Batch:
    """What one task reads."""

    rows: tuple[Wanted, ...]
    orders: tuple[_Order, ...]


class GateSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "holdfast-gate"

    def schema(self) -> StructType | str:
        gate = GateOptions.load(self._folder)
        return gate.schema if gate.pack is None else PACKED

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
        self._dropped = 0
        """Entries up to this one are not in the journal any more."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"entry": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        journal = self._journal
        deadline = time.monotonic() + PATIENCE
        while (last := journal.last) <= start["entry"] and time.monotonic() < deadline:
            time.sleep(BREATH)
        if last < start["entry"]:
            raise StoreCorruptError(
                f"{journal.folder}: entry {last} is the last of the journal, and the checkpoint of "
                f"Spark has done entry {start['entry']}; start the replica with an empty folder, "
                "it gets its state from a peer or its inputs"
            )
        return {"entry": last}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        numbers = range(start["entry"] + 1, end["entry"] + 1)
        tasks = _plan([self._journal.read(number) for number in numbers], self.gate.tasks)
        return [InputPartition(task) for task in tasks]

    def commit(self, end: dict[str, int]) -> None:
        if end["entry"] - self._dropped >= KEPT:
            # What the checkpoint has lost after a power failure is done again with these entries.
            sync_files_at(self.folder)
            self._journal.drop_to(end["entry"])
            self._dropped = end["entry"]

    @property
    def _journal(self) -> Journal:
        return Journal(self.folder / "journal")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        task: _Batch = partition.value
        with PieceReader(self.gate.address, self.gate.security) as reader:
            for wanted in task.rows:
                own = self._own(reader.read(wanted), wanted.piece.input)
                yield from self._rows(wanted.entry, wanted.piece, own)
        if task.orders:
            yield self._orders(task.orders)

    def _own(self, table: pa.Table, which: int) -> dict[str, pa.ChunkedArray]:
        """The columns of the gate that rows of an input fill."""
        names = (table.schema.names[0], *self.gate.columns[which])
        return {
            name: column.cast(self.arrow.field(name).type)
            for name, column in zip(names, table.columns, strict=True)
        }

    def _rows(
        self, entry: int, piece: Piece, own: dict[str, pa.ChunkedArray]
    ) -> Iterator[pa.RecordBatch]:
        rows = piece.chunk.rows
        if self.gate.pack is not None:
            blobs = self.gate.pack(pa.table(own), piece.input)
            yield packed_rows(entry, piece.input, piece.bucket, blobs)
            return
        given = own | row_columns(entry, piece.input, piece.bucket, rows)
        columns = [given.get(field.name, pa.nulls(rows, field.type)) for field in self.arrow]
        yield from pa.table(columns, schema=self.arrow).to_batches(max_chunksize=BATCH_ROWS)

    def _orders(self, orders: Sequence[_Order]) -> pa.RecordBatch:
        batches = []
        for each in orders:
            body = order_body(each.order, each.state)
            bodies: dict[int, bytes | None] = dict.fromkeys(self.gate.shards, body)
            if self.gate.pack is not None:
                batches.append(
                    packed_orders(each.entry, each.order, each.end, each.tentative, bodies)
                )
                continue
            given = order_columns(each.entry, each.order, each.end, each.tentative, bodies)
            columns = [
                given.get(field.name, pa.nulls(len(bodies), field.type)) for field in self.arrow
            ]
            batches.append(pa.record_batch(columns, schema=self.arrow))
        return pa.concat_batches(batches)


def sync_files_at(path: Path) -> None:
    """Wait until all that was written to the file system of this path is safe."""
    opened = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(opened):
            raise OSError(ctypes.get_errno(), f"{path}: cannot be synced")
    finally:
        os.close(opened)


def _plan(entries: Sequence[Entry], tasks: int) -> list[_Batch]:
    """What each task of a batch reads; orders go with the last."""
    wanted = [
        Wanted(entry.number, at, piece)
        for entry in entries
        for at, piece in enumerate(entry.pieces)
    ]
    orders = tuple(
        _Order(each.number, int(each.order), each.end, each.tentative, each.state)
        for each in entries
    )
    *parts, last = divided(wanted, tasks)
    return [*(_Batch(tuple(each), ()) for each in parts), _Batch(tuple(last), orders)]
