"""Rows on their way to their windows: in blobs before the shuffle, and waiting in the state.

`pack` runs in `mapInArrow`, without state; `processor` and `static` open the blobs. `Waiting` keeps
what the watermark has not reached.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from holdfast.spark.partials import gather
from holdfast.spark.policy_windows.plan import PolicyPlan
from holdfast.windows.shard.shelves import Shelf
from holdfast.windows.stores.codec import StateCodec

__all__ = ["Rows", "Waiting", "pack", "unpack"]

_CODEC: Final = StateCodec()


@dataclass(frozen=True)
class Rows:
    """Some rows of a shard."""

    keys: Sequence[Hashable]
    batch: pa.RecordBatch
    """For each row the place of its key (`c`), its time (`t`), what the aggregates read (`v0` ...)
    and in new ones, if late rows are to be delivered, all of it (`r`)."""

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def codes(self) -> Any:
        return self.batch["c"].to_numpy()

    @property
    def times(self) -> Any:
        return self.batch["t"].to_numpy()

    def where(self, mask: Any) -> Rows:
        return self if mask.all() else Rows(self.keys, self.batch.filter(pa.array(mask)))

    def compact(self) -> Rows:
        """The same without keys that have no rows here."""
        used, codes = np.unique(self.codes, return_inverse=True)
        keys = [self.keys[place] for place in used.tolist()]
        return Rows(keys, self.batch.set_column(0, "c", pa.array(codes, pa.int64())))

    def to_record(self) -> tuple[list[Hashable], bytes]:
        return list(self.keys), _to_stream(self.batch)

    @staticmethod
    def of_record(record: tuple[list[Hashable], bytes]) -> Rows:
        keys, stream = record
        return Rows(keys, pa.ipc.open_stream(stream).read_next_batch())


def join(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts, with the keys of all."""
    if len(parts) == 1:
        return parts[0]
    places: dict[Hashable, int] = {}
    batches = []
    for part in parts:
        own = np.array([places.setdefault(key, len(places)) for key in part.keys], np.int64)
        batches.append(part.batch.set_column(0, "c", pa.array(own[part.codes])))
    return Rows(list(places), pa.concat_batches(batches))


# Blobs


def pack(plan: PolicyPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the batches of one partition.

    Columns: the shard (`s`), the time (`t`), the keys (`k0` ...), what the aggregates read (`v0`
    ...) and, if late rows are to be delivered, the whole row (`r`).
    """
    for batch in gather(batches):
        yield _blobs(plan, batch)


def _blobs(plan: PolicyPlan, batch: pa.RecordBatch) -> pa.RecordBatch:
    codes, distinct = plan.keys.encode(
        [batch[f"k{place}"] for place in range(len(plan.keys.fields))], len(batch)
    )
    columns = {"c": pa.array(codes, pa.int64()), "t": batch["t"].cast(pa.int64())}
    carried = [f"v{place}" for place in range(len(plan.sources))]
    if plan.late is not None:
        carried.append("r")
    columns.update({name: batch[name] for name in carried})
    rows = Rows(distinct, pa.record_batch(columns))
    shard_of = batch["s"].to_numpy()
    shards = np.unique(shard_of).tolist()
    blobs = [_CODEC.encode(rows.where(shard_of == shard).compact().to_record()) for shard in shards]
    return pa.record_batch(
        {"shard": pa.array(shards, pa.int32()), "blob": pa.array(blobs, pa.binary())}
    )


def unpack(blob: bytes) -> Rows:
    return Rows.of_record(_CODEC.decode(blob))


def _to_stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


# Waiting


class Waiting:
    """Rows that the watermark has not reached, in chunks of the batches that brought them.

    A chunk is opened when its earliest row is due; what of it is not goes into the chunk of that
    batch. So there are as many chunks as batches that the watermark lags behind, at most. All
    rows that wait are those of the last while, as long as the delay of the watermark.
    """

    def __init__(self, parts: Shelf) -> None:
        self._parts = parts
        index = parts.read("waiting", 0)
        self._next: int = 1 if index is None else index[0]
        self._chunks: list[tuple[int, int, int]] = [] if index is None else list(index[1])
        """Of each its number, its earliest time and how many rows it has."""

    @property
    def earliest(self) -> int | None:
        """When the next row is due."""
        return min((earliest for _, earliest, _ in self._chunks), default=None)

    def __len__(self) -> int:
        return sum(count for _, _, count in self._chunks)

    def exchange(self, new: Iterable[Rows], watermark: int | None) -> Rows | None:
        """Put new rows to those that wait, take out those that are due, if there are any."""
        reached = -np.inf if watermark is None else watermark
        due = [chunk for chunk in self._chunks if chunk[1] <= reached]
        opened = [Rows.of_record(self._parts.read("waiting", number)) for number, _, _ in due]
        parts = [part for part in (*opened, *new) if len(part)]
        if not parts:
            return None
        rows = join(parts)
        is_due = rows.times <= reached
        for chunk in due:
            self._chunks.remove(chunk)
            self._parts.delete("waiting", chunk[0])
        if not is_due.all():
            self._put(rows.where(~is_due).compact())
        self._parts.write("waiting", 0, (self._next, self._chunks))
        return rows.where(is_due) if is_due.any() else None

    def _put(self, rows: Rows) -> None:
        self._parts.write("waiting", self._next, rows.to_record())
        self._chunks.append((self._next, int(rows.times.min()), len(rows)))
        self._next += 1
