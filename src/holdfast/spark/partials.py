"""Partial aggregates of rows by pane and key, packed into one blob for each shard.

Runs in `mapInArrow`, before the shuffle, without state. `operator` and `batch` open the blobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from holdfast.errors import InvalidArgumentError
from holdfast.spark.plan import Plan
from holdfast.windows.shard import Partials
from holdfast.windows.shard.batches import stable_order
from holdfast.windows.stores.codec import StateCodec

__all__ = [
    "BLOBS",
    "Packed",
    "gather",
    "pack",
    "pack_columns",
    "shard_column",
    "shard_labels",
    "spark_hash",
    "unpack",
]


# Which shard a key belongs to, and how shards are spread over Spark's partitions.
#
# Called by `holdfast.spark.dataframe` where it plans a query. A shard is known by its *label*, the
# int that Spark groups by. Spark puts an int into the partition its hash says, so labels are picked
# by their hash: with as many shuffle partitions as shards, each partition has exactly one shard.

_SEED: Final = 42


def spark_hash(values: np.ndarray) -> np.ndarray:
    """What Spark's `hash()` answers for each of these ints (32 bits): Murmur3 with Spark's seed."""
    mixed = values.astype(np.int32).view(np.uint32) * np.uint32(0xCC9E2D51)
    mixed = _rotate(mixed, 15) * np.uint32(0x1B873593)
    hashed = _rotate(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    # The 4 is the length of an int in bytes.
    hashed ^= np.uint32(4)
    hashed ^= hashed >> np.uint32(16)
    hashed *= np.uint32(0x85EBCA6B)
    hashed ^= hashed >> np.uint32(13)
    hashed *= np.uint32(0xC2B2AE35)
    hashed ^= hashed >> np.uint32(16)
    return hashed.view(np.int32)


def shard_labels(shards: int) -> list[int]:
    """The labels of this many shards: label p is the least int >= 0 that goes to partition p."""
    if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
        raise InvalidArgumentError(f"shards is {shards!r}; give a number of at least 1")
    tried = 4 * shards
    while True:
        partitions, labels = np.unique(
            spark_hash(np.arange(tried)).astype(np.int64) % shards, return_index=True
        )
        if len(partitions) == shards:
            return labels.tolist()
        tried *= 2


def shard_column(keys: Sequence[Column], labels: Sequence[int]) -> Column:
    """The label of the shard that a row belongs to, by its key columns.

    `xxhash64` takes all NaNs for one and -0.0 for 0.0, at any depth, as grouping does: equal keys
    are always of one shard.
    """
    if not keys or len(labels) == 1:
        return F.lit(labels[0])
    place = F.pmod(F.xxhash64(*keys), F.lit(len(labels))).cast("int")
    # One literal instead of thousands; the optimizer makes an array of it once per query.
    return F.get(F.split(F.lit(",".join(map(str, labels))), ",").cast("array<int>"), place)


def _rotate(values: np.ndarray, bits: int) -> np.ndarray:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))


BLOBS: Final = "shard int, blob binary"
MOST_ROWS: Final = 2**20
MOST_BYTES: Final = 2**26
"""Rows and bytes that are packed at once: more make fewer blobs and need more memory."""

_CODEC: Final = StateCodec()


@dataclass(frozen=True)
class Packed:
    """What a blob holds."""

    partials: Partials
    rows: bytes | None
    """The rows themselves in the order of the partials, as an Arrow stream, if they are wanted."""

    def rows_of(self, states: Any) -> pa.Table:
        """The rows behind some of the states."""
        counts = self.partials.counts
        starts = np.cumsum(counts) - counts
        at = [np.arange(starts[i], starts[i] + counts[i]) for i in states]
        return pa.ipc.open_stream(self.rows).read_all().take(np.concatenate(at))


def pack(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the batches of one partition.

    Columns: the shard (`s`), the time (`t`), the keys (`k0` ...), what the measures read (`v0` ...)
    and, if late rows are to be delivered, the whole row (`r`).
    """
    for batch in gather(batches):
        yield _blobs(plan, batch)


def gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition in few batches: as many rows at once as make a blob."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if len(batch):
            waiting.append(batch)
            rows, size = rows + len(batch), size + batch.nbytes
        if rows >= MOST_ROWS or size >= MOST_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def _blobs(plan: Plan, batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    shards, blobs = [], []
    for shard, blob in pack_columns(plan, columns):
        shards.append(shard)
        blobs.append(blob)
    return pa.record_batch(
        {"shard": pa.array(shards, pa.int32()), "blob": pa.array(blobs, pa.binary())}
    )


def pack_columns(
    plan: Plan, columns: dict[str, pa.Array], labels: Sequence[int] | None = None
) -> Iterator[tuple[int, bytes]]:
    """The shards of some rows, and a blob for each of them. Columns are named as in `pack`; without
    one of shards, their labels, over which keys are then spread."""
    times = columns["t"].cast(pa.int64()).to_numpy(zero_copy_only=False)
    key_columns = [columns[f"k{i}"] for i in range(len(plan.keys.fields))]
    codes, distinct = plan.keys.encode(key_columns, len(times))
    if labels is None:
        shards, shard = _positions(columns["s"].to_numpy(zero_copy_only=False))
    else:
        shards, shard = _positions(_spread(distinct, labels)[codes])
    panes = plan.panes.of_each(times)
    order, starts = _group(shard, len(shards), panes, codes, len(distinct))
    counts = np.diff(starts, append=len(times))
    states = [
        measure.partial(
            None if measure.source is None else columns[f"v{plan.sources.index(measure.source)}"],
            times,
            order,
            starts,
            len(starts),
        )
        for measure in plan.measures
    ]
    first = starts if order is None else order[starts]
    panes, codes, shard = panes[first], codes[first], shard[first]
    cuts = np.searchsorted(shard, np.arange(len(shards) + 1))
    for i, label in enumerate(shards.tolist()):
        here = slice(cuts[i], cuts[i + 1])
        known, slots = np.unique(codes[here], return_inverse=True)
        keys = [distinct[code] for code in known.tolist()]
        own = tuple(tuple(field[here] for field in state) for state in states)
        rows = None
        if plan.late is not None:
            last = starts[cuts[i + 1]] if cuts[i + 1] < len(starts) else len(times)
            span = slice(starts[cuts[i]], last)
            which = np.arange(span.start, span.stop) if order is None else order[span]
            rows = _as_stream(columns["r"].take(pa.array(which)))
        partials = (keys, panes[here], slots, counts[here], own)
        yield label, _CODEC.encode((partials, rows))


def _spread(keys: Sequence[Any], labels: Sequence[int]) -> Any:
    """The label of the shard that each key belongs to. Equal keys look equal."""
    places = [crc32(repr(key).encode()) % len(labels) for key in keys]
    return np.array(labels)[places]


def _positions(labels: Any) -> tuple[Any, Any]:
    """The labels that occur, increasing, and for each row which of them it has.

    As `np.unique` would, but without sorting: labels are small.
    """
    shards = np.flatnonzero(np.bincount(labels))
    places = np.zeros(shards[-1] + 1, np.int64)
    places[shards] = np.arange(len(shards))
    return shards, places[labels]


def _group(shard: Any, shards: int, panes: Any, codes: Any, keys: int) -> tuple[Any, Any]:
    """How to sort rows by shard, pane and key, and where each such group begins.

    No order: they are sorted.
    """
    oldest = int(panes.min())
    span = int(panes.max()) - oldest + 1
    numbers = panes - oldest
    if span * shards * keys > 2**61:
        numbers = np.unique(panes, return_inverse=True)[1]
        span = int(numbers.max()) + 1
    groups = (shard * span + numbers) * keys + codes
    order = None
    if (groups[1:] < groups[:-1]).any():
        order = stable_order(groups, shards * span * keys)
        groups = groups[order]
    return order, np.append(0, np.flatnonzero(groups[1:] != groups[:-1]) + 1)


def _as_stream(rows: pa.StructArray) -> bytes:
    batch = pa.RecordBatch.from_struct_array(rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


def unpack(blob: bytes) -> Packed:
    (keys, panes, slots, counts, states), rows = _CODEC.decode(blob)
    return Packed(Partials(keys, panes, slots, counts, states), rows)
