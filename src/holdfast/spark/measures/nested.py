"""Arrays, maps and structs as bytes: the same for equal values, comparable, and readable again.

A form like those of `forms`. `first` and `last` keep these bytes and compare them where times are
equal; distinct counts hash them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.spark.measures.forms import spread_values
from holdfast.windows.columns import Column
from holdfast.windows.columns.values import as_objects

__all__ = ["Nested"]


@dataclass(frozen=True)
class Nested:
    """Values of any Arrow type that Spark has, as JSON."""

    kind: pa.DataType

    def read(self, values: pa.Array) -> Column:
        texts = map(_encode, values.cast(_plain(values.type)).to_pylist())
        return np.fromiter(texts, dtype=object, count=len(values))

    def write(self, column: Column, valid: Column | None) -> pa.Array:
        plain = _plain(self.kind)
        texts = spread_values(as_objects(column), valid).tolist()
        values = [None if text is None else _revive(plain, json.loads(text)) for text in texts]
        return pa.array(values, plain).cast(self.kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type with ints for dates, times and durations, which Python's own have no room for."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_plain(key.type)), item.with_type(_plain(item.type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind


def _encode(value: Any) -> bytes:
    text = json.dumps(value, default=_encode_leaf, ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def _encode_leaf(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value)} cannot be encoded")


def _revive(kind: pa.DataType, value: Any) -> Any:
    """What JSON has read, as Arrow takes it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _revive(field.type, value[field.name]) for field in kind}
    if pa.types.is_map(kind):
        return [(_revive(kind.key_type, k), _revive(kind.item_type, v)) for k, v in value]
    if pa.types.is_list(kind):
        return [_revive(kind.value_type, item) for item in value]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return bytes.fromhex(value)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    return value
