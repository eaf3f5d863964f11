"""Which shard a key belongs to, and how shards are spread over Spark's partitions.

Called by `holdfast.spark.windows` where it plans a query. A shard is known by its *label*, the int
that Spark groups by. Spark puts an int into the partition its hash says, so labels are picked by
their hash: with as many shuffle partitions as shards, each partition has exactly one shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from holdfast.errors import InvalidArgumentError

__all__ = ["shard_column", "shard_labels", "spark_hash"]

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
