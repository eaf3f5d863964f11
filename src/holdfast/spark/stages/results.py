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
import pyarrow.compute as pc

from holdfast.spark.stages.entries import Order
from holdfast.spark.stages.rows import AT, BODY, ROWS
from holdfast.spark.stages.states import join_states
from holdfast.tuples import STIME
from holdfast.wire.chunks import Chunk

__all__ = ["PLACES", "Result", "results_in"]

PLACES: Final = ("entry", "order", "input", "place")
"""What is needed here of where rows come from. For an order, `input` is the shard."""


@dataclass(frozen=True, slots=True)
class Result:
    """What has come of an entry."""

    entry: int
    order: Order
    chunks: tuple[tuple[int, Chunk], ...]
    """The rows of each bucket that has any, in the one order of the stream."""
    state: bytes
    """The copy of the base that was asked for."""


def results_in(table: pa.Table, schema: pa.Schema, size: int) -> Iterator[Result]:
    """The results of all entries in a batch. `schema`: of the stream; `size`: of a bucket.

    Its columns are `_at`, or those of `PLACES`, then `_body` if there is a state that it could be
    of, then those of the stream."""
    at = _places(table)
    is_row = at["order"].to_numpy() == ROWS
    orders = at.append_column(BODY, _bodies(table)).filter(pa.array(~is_row))
    own = table.select(range(table.num_columns - len(schema), table.num_columns))
    rows = _Rows.of(_picked(at, is_row), _picked(own, is_row).cast(schema))
    numbers = orders["entry"].to_numpy()
    for entry in np.unique(numbers).tolist():
        here = orders.filter(pa.array(numbers == entry))
        order = Order(here["order"][0].as_py())
        state = _copies(here) if order is Order.COPY else b""
        yield Result(entry, order, tuple(rows.chunks_of(entry, size)), state)


def _places(table: pa.Table) -> pa.Table:
    if AT not in table.column_names:
        return table.select(range(len(PLACES))).rename_columns(PLACES)
    at = table[AT].combine_chunks()
    columns = {name: at.field(name) for name in PLACES}
    columns["input"] = pc.coalesce(columns["input"], at.field("shard"))
    return pa.table(columns)


def _bodies(table: pa.Table) -> pa.ChunkedArray | pa.Array:
    return table[BODY] if BODY in table.column_names else pa.nulls(len(table), pa.binary())


def _picked(table: pa.Table, wanted: np.ndarray[Any, Any]) -> pa.Table:
    """Some rows of a table; nothing is copied if they lie side by side."""
    places = np.flatnonzero(wanted)
    first, stop = (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)
    if stop - first == len(places):
        return table.slice(first, len(places))
    return table.filter(pa.array(wanted))


def _copies(orders: pa.Table) -> bytes:
    states = zip(orders["input"].to_pylist(), orders[BODY].to_pylist(), strict=True)
    return join_states({shard: copy for shard, copy in states if copy is not None})


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a batch in their order: by entry, by time, then by where they came from."""

    own: pa.Table
    """Their columns, as the stream has them."""
    entries: np.ndarray[Any, Any]
    times: np.ndarray[Any, Any]

    @classmethod
    def of(cls, at: pa.Table, own: pa.Table) -> _Rows:
        entries, times = at["entry"].to_numpy(), own[STIME].cast(pa.int64()).to_numpy()
        keys = [entries, times, at["input"].to_numpy(), at["place"].to_numpy()]
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
