"""Join of two inputs in one shard: pairs of rows with equal keys, close in time.

Rows are kept, bucket by bucket, as long as a row to come may be near enough. A pair appears in the
bucket of its newer row. Pairs of one time have the order of their rows in the inputs, so it is the
same whatever the rows say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from holdfast.errors import StoreCorruptError
from holdfast.pipeline.machine.tuples import STIME
from holdfast.spark.keys import Keys
from holdfast.spark.results import to_stream
from holdfast.windows.shard.shelves import Shelf


@dataclass(frozen=True)
class JoinPlan:
    """A join, resolved against its inputs."""

    keys: Keys
    within: int
    size: int
    """Of a bucket."""
    left: tuple[tuple[str, str], ...]
    """The columns that come from the left input: what they are called there and here."""
    right: tuple[tuple[str, str], ...]
    schema: pa.Schema
    """Of a pair."""

    @cached_property
    def signature(self) -> str:
        """All that kept rows depend on."""
        columns = ", ".join(f"{field.name} {field.type}" for field in self.schema)
        keys = ", ".join(self.keys.names)
        return f"pairs ({columns}) by ({keys}) in buckets of {self.size}"


class JoinTask:
    def __init__(self, plan: JoinPlan, parts: Shelf, pairs: Shelf) -> None:
        self._plan = plan
        self._shelf = parts
        self._buckets: tuple[list[int], list[int]] = ([], [])
        """The buckets whose rows are kept, for each side."""
        known = parts.read("buckets", 0)
        if known is not None:
            signature, *buckets = known
            if signature != plan.signature:
                raise StoreCorruptError(
                    f"the state is of {signature}; this join has {plan.signature}. Start the "
                    "replica with an empty folder"
                )
            self._buckets = (list(buckets[0]), list(buckets[1]))
        self._new: dict[tuple[int, int], pa.Table] = {}

    def take(self, which: int, bucket: int, blob: bytes) -> None:
        self._new[which, bucket] = pa.ipc.open_stream(blob).read_all()

    def advance(self, boundary: int) -> Iterator[bytes]:
        for bucket in sorted({bucket for _, bucket in self._new}):
            table = self._pairs(bucket)
            for side in (0, 1):
                rows = self._new.get((side, bucket))
                if rows is not None:
                    self._shelf.write(_NAMES[side], bucket, to_stream(rows))
                    self._buckets[side].append(bucket)
            if len(table):
                yield to_stream(table)
        self._new.clear()
        oldest = (boundary - self._plan.within) // self._plan.size
        for side in (0, 1):
            for bucket in [each for each in self._buckets[side] if each < oldest]:
                self._shelf.delete(_NAMES[side], bucket)
                self._buckets[side].remove(bucket)

    def save(self) -> None:
        self._shelf.write("buckets", 0, (self._plan.signature, *map(tuple, self._buckets)))

    def _pairs(self, bucket: int) -> pa.Table:
        """The pairs of which at least one row is in this bucket."""
        left, right = self._new.get((0, bucket)), self._new.get((1, bucket))
        found = []
        if left is not None:
            found += [self._match(bucket, left, old, rows) for old, rows in self._kept(1, bucket)]
        if right is not None:
            found += [self._match(old, rows, bucket, right) for old, rows in self._kept(0, bucket)]
        if left is not None and right is not None:
            found.append(self._match(bucket, left, bucket, right))
        if not found:
            return self._plan.schema.empty_table()
        tables, places = zip(*found, strict=True)
        table = pa.concat_tables(tables)
        times = table[STIME].cast(pa.int64()).to_numpy()
        return table.take(pa.array(np.lexsort((*np.concatenate(places, axis=1), times))))

    def _kept(self, side: int, bucket: int) -> Iterator[tuple[int, pa.Table]]:
        """The rows of a side that may be near enough to some in this bucket."""
        oldest = (bucket * self._plan.size - self._plan.within) // self._plan.size
        for old in self._buckets[side]:
            if old >= oldest:
                yield old, pa.ipc.open_stream(self._shelf.read(_NAMES[side], old)).read_all()

    def _match(
        self, left_bucket: int, left: pa.Table, right_bucket: int, right: pa.Table
    ) -> tuple[pa.Table, np.ndarray]:
        """Pairs, and where their rows come from, what counts most last."""
        plan = self._plan
        times = [each[STIME].cast(pa.int64()).to_numpy() for each in (left, right)]
        at_left, at_right = _near(_codes(plan.keys, left, right), times, plan.within)
        newest = np.maximum(times[0][at_left], times[1][at_right])
        columns = [pa.array(newest).cast(plan.schema.field(0).type)]
        columns += [left[name].take(pa.array(at_left)) for name, _ in plan.left]
        columns += [right[name].take(pa.array(at_right)) for name, _ in plan.right]
        buckets = [np.full(len(newest), each) for each in (right_bucket, left_bucket)]
        places = np.stack([at_right, buckets[0], at_left, buckets[1]])
        return pa.table(columns, schema=plan.schema), places


_NAMES = ("left", "right")


def _codes(keys: Keys, left: pa.Table, right: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the keys of the rows: equal where the keys are."""
    both = [
        pa.chunked_array([*left[name].chunks, *right[name].chunks], left[name].type)
        for name in keys.names
    ]
    codes, _ = keys.encode([column.combine_chunks() for column in both])
    return codes[: len(left)], codes[len(left) :]


def _near(
    codes: tuple[np.ndarray, np.ndarray], times: Sequence[np.ndarray], within: int
) -> tuple[np.ndarray, np.ndarray]:
    """The places of all rows with equal codes whose times are near enough, pair by pair."""
    (left, right), (left_times, right_times) = codes, times
    moments = np.concatenate([right_times, left_times - within, left_times + within])
    # Ranks instead of times: with a code they fit into one number.
    known, ranks = np.unique(moments, return_inverse=True)
    theirs, first, last = np.split(ranks, np.cumsum([len(right), len(left)]))
    numbers = right * len(known) + theirs
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    starts = np.searchsorted(numbers, left * len(known) + first, "left")
    counts = np.searchsorted(numbers, left * len(known) + last, "right") - starts
    skipped = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    at_left = np.repeat(np.arange(len(left)), counts)
    return at_left, order[np.arange(len(at_left)) + skipped]
