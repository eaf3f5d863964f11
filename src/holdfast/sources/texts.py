"""Values that files and messages write as text: read as strings first, then as what they are.

Arrow's readers are strict about times: some want a zone, some refuse one. Here a time without a
zone is in UTC, and a date alone is its midnight.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["as_read", "parsed"]

UTC = pa.timestamp("us", "UTC")
DATE = r"^\d{4}-\d{2}-\d{2}$"
ZONE = r":\d{2}(\.\d+)?(Z|[+-]\d{2}(:?\d{2})?)$"


def as_read(schema: pa.Schema) -> pa.Schema:
    """The columns as a reader is to read them."""
    return pa.schema(
        [field.with_type(pa.string()) if _is_text(field.type) else field for field in schema]
    )


def parsed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows that were read so, as they are; raises ArrowInvalid for what cannot be."""
    table.validate(full=True)
    columns = [
        _parsed(table[field.name], field.type) if _is_text(field.type) else table[field.name]
        for field in schema
    ]
    return pa.table(columns, names=schema.names).cast(schema)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _parsed(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    texts = pc.utf8_trim_whitespace(texts)
    if pa.types.is_date(kind):
        return texts.cast(kind)
    is_date = pc.match_substring_regex(texts, DATE)
    ending = pc.if_else(
        is_date,
        "T00:00:00Z",
        pc.if_else(pc.match_substring_regex(texts, ZONE), "", "Z"),
    )
    return pc.binary_join_element_wise(texts, ending, "").cast(UTC)
