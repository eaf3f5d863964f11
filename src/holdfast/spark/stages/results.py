"""What comes of the entries of a journal: chunks for the log, and copies of the state.

Made in the driver of what a batch of the query has given. Rows get the one order of the stream
here, whatever way they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.spark.stages.entries import Order
from holdfast.spark.stages.rows import AT, BODY, HIDDEN, ROWS
from holdfast.spark.stages.states import join_states
from holdfast.tuples import STIME
from holdfast.wire.chunks import Chunk

__all__ = ["Result", "results_in"]


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
    """The results of all entries in a batch. `schema`: of the stream; `size`: of a bucket."""
    at = table[AT].combine_chunks()
    entries, orders = at.field("entry").to_numpy(), at.field("order").to_numpy()
    for entry in np.unique(entries[orders != ROWS]).tolist():
        here = entries == entry
        order = Order(int(orders[here & (orders != ROWS)][0]))
        state = _copies(table.filter(pa.array(here))) if order is Order.COPY else b""
        rows = table.filter(pa.array(here & (orders == ROWS)))
        yield Result(entry, order, tuple(_chunks(rows, schema, size)), state)


def _copies(orders: pa.Table) -> bytes:
    shards = pc.struct_field(orders[AT], "shard").to_pylist()
    states = dict(zip(shards, orders[BODY].to_pylist(), strict=True))
    return join_states({shard: copy for shard, copy in states.items() if copy is not None})


def _chunks(rows: pa.Table, schema: pa.Schema, size: int) -> Iterator[tuple[int, Chunk]]:
    if not len(rows):
        return
    rows = rows.take(_order(rows))
    buckets = rows[STIME].cast(pa.int64()).to_numpy() // size
    own = rows.drop_columns(list(HIDDEN)).cast(schema)
    edges = [0, *(np.flatnonzero(buckets[1:] != buckets[:-1]) + 1).tolist(), len(rows)]
    for start, stop in pairwise(edges):
        yield int(buckets[start]), Chunk.of(own.slice(start, stop - start))


def _order(rows: pa.Table) -> pa.Array:
    """By time, then by where rows came from."""
    keys = {STIME: rows[STIME]}
    keys |= {name: pc.struct_field(rows[AT], name) for name in ("input", "place", "part")}
    return pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
