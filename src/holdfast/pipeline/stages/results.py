"""Results of journal entries: chunks for the log, and copies of the state.

Made in the driver of what a batch of the query has given. Rows get the one order of the stream
here, whatever way they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.stages.entries import Entry, Order
from holdfast.pipeline.stages.rows import BODY, ROWS, Places, order_columns, row_columns
from holdfast.pipeline.stages.states import StateFiles
from holdfast.storage.chunks import Chunk
from holdfast.windows.stores.codec import StateCodec

# What the state of a stage answers, as rows again.
#
# Behind further steps this runs in `mapInArrow`; if there are none the query does it in the driver,
# which saves a way through Python.

ToRows = Callable[[pa.Table], pa.Table]
"""Makes rows, with their time and in order, of what a task has answered."""


def open_answers(
    schema: pa.Schema, size: int, to_rows: ToRows, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows in answers, and the orders that were carried out. `size`: of a bucket."""
    for batch in batches:
        for answer in batch.to_pylist():
            if answer["order"] != ROWS:
                yield _order(schema, answer)
                continue
            rows = to_rows(pa.ipc.open_stream(answer["blob"]).read_all())
            buckets = rows[STIME].cast(pa.int64()).to_numpy() // size
            given = row_columns(answer["entry"], answer["shard"], buckets, len(rows))
            columns = [
                given[field.name] if field.name in given else rows[field.name] for field in schema
            ]
            yield from pa.table(columns, schema=schema).to_batches()


def _order(schema: pa.Schema, answer: Mapping[str, Any]) -> pa.RecordBatch:
    given = order_columns(
        answer["entry"],
        answer["order"],
        answer["bucket"],
        bool(answer["place"]),
        {answer["shard"]: answer["blob"]},
    )
    columns = [given.get(field.name, pa.nulls(1, field.type)) for field in schema]
    return pa.record_batch(columns, schema=schema)


def window_rows(keys: Sequence[str], table: pa.Table) -> pa.Table:
    """Windows by their end, then by key. Their time is the last moment in them."""
    ends = pc.struct_field(table["window"], "end").cast(pa.int64())
    times = pc.subtract(ends, 1).cast(pa.timestamp("us", "UTC"))
    sorted_by = [times, *(_sortable(table[key]) for key in keys)]
    named = pa.table(sorted_by, names=[str(at) for at in range(len(sorted_by))])
    order = pc.sort_indices(named, sort_keys=[(name, "ascending") for name in named.column_names])
    return table.add_column(0, STIME, times).take(order)


def join_rows(table: pa.Table) -> pa.Table:
    """Pairs have all that, and come in order."""
    return table


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Any order will do that tells different keys apart."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind):
        return pa.array([None if v is None else repr(v) for v in column.to_pylist()], pa.string())
    return column


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
