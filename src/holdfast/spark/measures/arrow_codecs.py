"""Conversion of Arrow values into NumPy columns and back.

Used by the ways of a measure. A form reads arrays without NULLs: those are left out before. What
it writes has a row of the column for each row that is valid, and NULL for the others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from holdfast.errors import InvalidValueError
from holdfast.windows.columns import Column
from holdfast.windows.columns.values import as_objects

__all__ = [
    "Answers",
    "Fixed",
    "Floats",
    "Form",
    "Nested",
    "OrderCodes",
    "PythonValues",
    "Reader",
    "Scaled",
    "Texts",
    "Truths",
    "Writer",
    "spread_values",
]


class Reader(Protocol):
    def read(self, values: pa.Array) -> Column:
        """The column of an array without NULLs; the two may share memory."""


class Writer(Protocol):
    def write(self, column: Column, valid: Column | None) -> pa.Array:
        """The array with these rows where `valid`, NULL elsewhere; None: all are valid."""


class Form(Reader, Writer, Protocol):
    """What was read is written as it was."""


def spread_values(column: Column, valid: Column | None) -> Column:
    """A column as long as `valid`: None, or nothing in particular, where that is False."""
    if valid is None:
        return column
    make = np.empty if column.dtype == object else np.zeros
    full: Column = make((len(valid), *column.shape[1:]), column.dtype)
    full[valid] = column
    return full


def _write_fixed(kind: pa.DataType, storage: Column, valid: Column | None) -> pa.Array:
    mask = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    full = spread_values(storage, valid)
    return pa.Array.from_buffers(kind, len(full), [mask, pa.py_buffer(full)])


def _stored(values: pa.Array, dtype: Any, width: int = 1) -> Column:
    """What an array of fixed width stores, `width` items for each row."""
    if not len(values):
        return np.empty(0, dtype)
    whole = np.frombuffer(values.buffers()[1], dtype)
    return whole[values.offset * width : (values.offset + len(values)) * width]


@dataclass(frozen=True)
class Fixed:
    """Integers, dates, times and durations as int64, floats as float64."""

    kind: pa.DataType

    def read(self, values: pa.Array) -> Column:
        return _stored(values, self._dtype).astype(self._wide, copy=False)

    def write(self, column: Column, valid: Column | None) -> pa.Array:
        return _write_fixed(self.kind, column.astype(self._dtype), valid)

    @property
    def _dtype(self) -> np.dtype[Any]:
        letter = "f" if pa.types.is_floating(self.kind) else "i"
        return np.dtype(f"{letter}{self.kind.bit_width // 8}")

    @property
    def _wide(self) -> type[Any]:
        return np.float64 if pa.types.is_floating(self.kind) else np.int64


@dataclass(frozen=True)
class Truths:
    """Booleans."""

    def read(self, values: pa.Array) -> Column:
        truths: Column = values.to_numpy(zero_copy_only=False)
        return truths

    def write(self, column: Column, valid: Column | None) -> pa.Array:
        truths = spread_values(column.astype(np.bool_), valid)
        return pa.array(truths, mask=None if valid is None else ~valid)


LOW_WORD: Final = 2**64 - 1


@dataclass(frozen=True)
class Scaled:
    """Decimals as whole numbers of their last digit: int64 where these fit, or else Python ints."""

    kind: pa.Decimal128Type

    def read(self, values: pa.Array) -> Column:
        words = _stored(values, np.int64, width=2).reshape(-1, 2)
        low, high = words[:, 0], words[:, 1]
        if (high == low >> 63).all():
            return low.copy()
        return as_objects(high) * (LOW_WORD + 1) + as_objects(low.view(np.uint64))

    def write(self, column: Column, valid: Column | None) -> pa.Array:
        words = np.zeros((len(column), 2), np.int64)
        if column.dtype == object:
            words[:, 0] = (column & LOW_WORD).astype(np.uint64).view(np.int64)
            words[:, 1] = (column >> 64).astype(np.int64)
        else:
            words[:, 0] = column
            words[:, 1] = column >> 63
        return _write_fixed(self.kind, words, valid)


@dataclass(frozen=True)
class Texts:
    """Strings and bytes as objects, which order as Spark orders them: byte by byte."""

    kind: pa.DataType

    def read(self, values: pa.Array) -> Column:
        texts: Column = values.to_numpy(zero_copy_only=False)
        return texts

    def write(self, column: Column, valid: Column | None) -> pa.Array:
        return pa.array(spread_values(as_objects(column), valid), self.kind)


@dataclass(frozen=True)
class Floats:
    """Numbers of any type as float64."""

    def read(self, values: pa.Array) -> Column:
        return Fixed(pa.float64()).read(values.cast(pa.float64(), safe=False))

    def write(self, column: Column, valid: Column | None) -> pa.Array:
        return Fixed(pa.float64()).write(column, valid)


MAGNITUDE: Final = np.int64(2**63 - 1)
"""All bits but the sign."""


@dataclass(frozen=True)
class OrderCodes:
    """Floats as ints in the same order: -0.0 before 0.0, NaN after all others."""

    kind: pa.DataType

    def read(self, values: pa.Array) -> Column:
        floats = Fixed(self.kind).read(values)
        bits = np.where(np.isnan(floats), np.nan, floats).view(np.int64)
        return np.where(bits < 0, bits ^ MAGNITUDE, bits)

    def write(self, column: Column, valid: Column | None) -> pa.Array:
        codes = column.astype(np.int64)
        bits = np.where(codes < 0, codes ^ MAGNITUDE, codes)
        return Fixed(self.kind).write(bits.view(np.float64), valid)


@dataclass(frozen=True)
class PythonValues:
    """Reads values of any type as the Python objects that Arrow makes of them."""

    def read(self, values: pa.Array) -> Column:
        return np.fromiter(values.to_pylist(), dtype=object, count=len(values))


@dataclass(frozen=True)
class Answers:
    """Writes Python objects as an Arrow type, None as NULL."""

    kind: pa.DataType
    label: str
    """Whose answers they are, for errors."""
    declared: str
    """What the user has said they are."""

    def write(self, column: Column, valid: Column | None) -> pa.Array:
        answers = spread_values(as_objects(column), valid).tolist()
        try:
            return pa.array(answers, self.kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidValueError(
                f"{self.label}: an answer is no {self.declared} ({error}); let lower answer what "
                "result says, or give another result type"
            ) from None


# Arrays, maps and structs as bytes: the same for equal values, comparable, and readable again.
#
# A form like those of `forms`. `first` and `last` keep these bytes and compare them where times are
# equal; distinct counts hash them.


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
