"""The columns of a stream in Arrow, from their types in Spark's DDL, without Spark and Java."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from holdfast.topology import Stream

__all__ = ["arrow_schema", "arrow_type"]

_SIMPLE: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_TOKEN: Final = re.compile(r"`(?:[^`]|``)+`|\w+|[<>(),:]")


def arrow_schema(stream: Stream) -> pa.Schema:
    """The columns of rows as they are brought: without `stime`."""
    return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in stream.source.schema])


def arrow_type(ddl: str) -> pa.DataType:
    """The same type as Spark's own conversion gives. `ddl`: as a checked topology spells it."""
    tokens = _TOKEN.findall(ddl)
    tokens.reverse()
    return _read(tokens)


def _read(tokens: list[str]) -> pa.DataType:
    """One type; `tokens` are the rest of the text, the next one last."""
    word = tokens.pop()
    if word == "decimal":
        _, digits, _, places, _ = (tokens.pop() for _ in range(5))
        return pa.decimal128(int(digits), int(places))
    if word == "array":
        tokens.pop()
        element = _read(tokens)
        tokens.pop()
        return pa.list_(pa.field("element", element))
    if word == "struct":
        fields = []
        while tokens.pop() != ">":
            name = tokens.pop()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            tokens.pop()
            fields.append(pa.field(name, _read(tokens)))
        return pa.struct(fields)
    return _SIMPLE[word]
