"""What comes of the entries of a journal: chunks for the log, and copies of the state.

Made in the driver of what a batch of the query has given. Rows get the one order of the stream
here, whatever way they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from holdfast.spark.stages.entries import Entry, Order
from holdfast.spark.stages.rows import BODY, Places
from holdfast.spark.stages.states import StateFiles
from holdfast.tuples import STIME
from holdfast.windows.stores.codec import StateCodec
from holdfast.wire.chunks import Chunk

__all__ = ["Result", "result_of", "results_in"]

_CODEC: Final = StateCodec()


@dataclass(frozen=True, slots=True)
class Result:
    """What has come of an entry."""

    entry: int
    order: Order
    chunks: tuple[tuple[int, Chunk], ...]
    """The rows of each bucket that has any, in the one order of the stream."""
    state: bytes
    """The files of the copy that was asked for, as `StateFiles` describes them; empty if there was
    no room for them."""
    applied: int | None = None
    """Of a fork that was dropped: the last entry that has changed the base, -1 if shards differ.
    None if there is no state."""


def results_in(table: pa.Table, schema: pa.Schema, size: int) -> Iterator[Result]:
    """The results of all entries in a batch. `schema`: of the stream; `size`: of a bucket.

    Of the hidden columns it has those that say where rows come from, and `_body` if there is a
    state that it could be of. Those of the stream are the last ones."""
    is_row = Places(table).is_row
    data = _picked(table, is_row)
    rows = _Rows.of(Places(data), _own(data, schema).cast(schema))
    orders = table.filter(pa.array(~is_row))
    places = Places(orders)
    for entry in np.unique(places.entries).tolist():
        here = np.flatnonzero(places.entries == entry)
        order = Order(int(places.orders[here[0]]))
        state = StateFiles(()).write()
        if order is Order.COPY and BODY in orders.column_names:
            copies = orders[BODY].take(here).to_pylist()
            reports = [_CODEC.decode(copy)[1] for copy in copies]
            shards = zip(places.low[here].tolist(), reports, strict=True)
            has_all = all(size >= 0 for steps in reports for size, _ in steps)
            state = StateFiles.of(dict(shards)).write() if has_all else b""
        applied = None
        if order is Order.DROP and BODY in orders.column_names:
            applied = _applied(orders[BODY].take(here).to_pylist())
        yield Result(entry, order, tuple(rows.chunks_of(entry, size)), state, applied)


def _applied(bodies: Sequence[bytes | None]) -> int | None:
    """The entry that all steps of all shards name."""
    named = {entry for body in bodies if body is not None for entry in _CODEC.decode(body)}
    return (named.pop() if len(named) == 1 else -1) if named else None


def result_of(entry: Entry, made: pa.Table | None, schema: pa.Schema, size: int) -> Result:
    """The result of an entry of a stage without state. `made`: what came of its rows, if it has
    any, as `results_in` takes it."""
    chunks: tuple[tuple[int, Chunk], ...] = ()
    if made is not None:
        rows = _Rows.of(Places(made), _own(made, schema).cast(schema))
        chunks = tuple(rows.chunks_of(entry.number, size))
    return Result(entry.number, entry.order, chunks, StateFiles(()).write())


def _own(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.select(range(table.num_columns - len(schema), table.num_columns))


def _picked(table: pa.Table, wanted: np.ndarray[Any, Any]) -> pa.Table:
    """Some rows of a table; nothing is copied if they lie side by side."""
    places = np.flatnonzero(wanted)
    first, stop = (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)
    if stop - first == len(places):
        return table.slice(first, len(places))
    return table.filter(pa.array(wanted))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a batch in their order: by entry, by time, then by where they came from."""

    own: pa.Table
    """Their columns, as the stream has them."""
    entries: np.ndarray[Any, Any]
    times: np.ndarray[Any, Any]

    @classmethod
    def of(cls, places: Places, own: pa.Table) -> _Rows:
        entries, times = places.entries, own[STIME].cast(pa.int64()).to_numpy()
        keys = [entries, times, places.sortable]
        if _is_sorted(keys):
            return cls(own, entries, times)
        order = np.lexsort(keys[::-1])
        return cls(own.take(pa.array(order)), entries[order], times[order])

    def chunks_of(self, entry: int, size: int) -> Iterator[tuple[int, Chunk]]:
        """What an entry gives, bucket by bucket."""
        first, stop = np.searchsorted(self.entries, [entry, entry + 1]).tolist()
        if first == stop:
            return
        buckets = self.times[first:stop] // size
        edges = [0, *(np.flatnonzero(buckets[1:] != buckets[:-1]) + 1).tolist(), stop - first]
        for start, end in pairwise(edges):
            yield int(buckets[start]), Chunk.of(self.own.slice(first + start, end - start))


def _is_sorted(keys: Sequence[np.ndarray[Any, Any]]) -> bool:
    """Whether rows are in the order of the first key, those alike by the next one, and so on."""
    alike = np.ones(max(len(keys[0]) - 1, 0), np.bool_)
    for key in keys:
        if (alike & (key[1:] < key[:-1])).any():
            return False
        alike &= key[1:] == key[:-1]
        if not alike.any():
            return True
    return True
