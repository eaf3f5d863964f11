"""Whether rows fit the input that they are for: asked where a replica is believed unheard.

`sample` lets buckets of one replica through before anybody has compared them. What the query cannot
read would end it, after each restart again; so it is refused on receipt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.protocol.messages import Again, Feed, Gap, Item, Stable
from holdfast.tuples import Segment
from holdfast.wire.untrusted import ARROW_ERRORS

__all__ = ["Fitting"]


class Fitting:
    """Knows the columns of each input, the event time first, and the `size` of buckets."""

    def __init__(self, schemas: Mapping[str, pa.Schema], size: int) -> None:
        self._schemas = schemas
        self._size = size

    def of(self, feed: Feed) -> Feed:
        """The same message if all of it fits; else with a gap in the place of what does not, as if
        its sender did not have it: who has a gap is not believed any more."""
        schema = self._schemas.get(feed.stream)
        if schema is None:
            return feed
        items = tuple(self._fitted(item, schema) for item in feed.items)
        return feed if items == feed.items else replace(feed, items=items)

    def _fitted(self, item: Item, schema: pa.Schema) -> Item:
        if isinstance(item, Stable | Again) and not self._fits(item.segment, schema):
            return Gap(item.segment.end)
        return item

    def _fits(self, segment: Segment, schema: pa.Schema) -> bool:
        return all(
            _has_columns(table, schema) and self._is_of(row.stime, table)
            for row in segment.rows
            for table in [row.value.table()]
        )

    def _is_of(self, stime: int, table: pa.Table) -> bool:
        """Whether its event times are of the bucket of this one."""
        if not table.num_rows:
            return True
        times = table.column(0).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        found = pc.min_max(times).as_py()
        return {found["min"] // self._size, found["max"] // self._size} == {stime // self._size}


def _has_columns(table: pa.Table, schema: pa.Schema) -> bool:
    if table.schema.names != schema.names:
        return False
    try:
        for column, field in zip(table.columns, schema, strict=True):
            column.cast(field.type)
            if column.null_count and not field.nullable:
                return False
    except ARROW_ERRORS:
        return False
    return True
