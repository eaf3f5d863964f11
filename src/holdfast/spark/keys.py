"""Keys as Spark has them (columns of any type it groups by) and as windows have them (hashables).

Called by `holdfast.spark.dataframe` to check the `key` argument, by `pack` to number the keys of a
batch, by `unpack` to turn keys back into columns. Keys that Spark takes for equal become equal
hashables: NaN is one key, -0.0 is 0.0. Hashables are None, bools, ints, strings, bytes, Decimals
and tuples of these, so that a store gives them back; floats are ints of the same bits, dates and
timestamps count days and microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import types as T  # noqa: N812

from holdfast.errors import InvalidArgumentError
from holdfast.spark.columns import column_named, field_named

__all__ = ["Keys"]

Encoded = tuple[np.ndarray, list[Any]]
"""The number of each row's key; the distinct keys by number, in the order of their first row."""

MonthsType = Callable[[T.YearMonthIntervalType], T.DataType]

_MONTHS: Final = T.YearMonthIntervalType(T.YearMonthIntervalType.MONTH)


class Keys:
    """The key columns of a query. A key of one column is its value, of several a tuple."""

    def __init__(self, fields: Sequence[T.StructField]) -> None:
        self.fields = [_retyped(field, lambda months: months) for field in fields]
        """Name and type of each key column in a result: as the user has them."""
        self.carried = [_retyped(field, lambda _: T.IntegerType()) for field in fields]
        """The same while they are Arrow, where ints stand for year-month intervals."""
        self._kinds = [_kind_of(field.dataType, field.name) for field in self.carried]

    @staticmethod
    def of(schema: T.StructType, key: str | Sequence[str]) -> Keys:
        """The columns of a DataFrame that the user's `key` argument names."""
        return Keys([field_named(schema, name, "key") for name in _names_in(key)])

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    def columns(self) -> list[Column]:
        """The key columns of the user's DataFrame; what a shard is computed from."""
        return [column_named(name) for name in self.names]

    def to_carried(self) -> list[Column]:
        """The key columns of the user's DataFrame as Arrow carries them."""
        return [
            _cast(field, to.dataType) for field, to in zip(self.fields, self.carried, strict=True)
        ]

    def from_carried(self) -> list[Column]:
        """The key columns of a DataFrame that came out of Arrow, as the user has them."""
        return [_cast(field, field.dataType) for field in self.fields]

    def encode(self, columns: Sequence[pa.Array], rows: int | None = None) -> Encoded:
        """Number the keys of rows, given their key columns. Without any, `rows` says how many."""
        if len(columns) != len(self._kinds):
            raise InvalidArgumentError(
                f"columns has {len(columns)} arrays; the key has {len(self._kinds)} columns"
            )
        if columns:
            parts = [kind.encode(array) for kind, array in zip(self._kinds, columns, strict=True)]
            return parts[0] if len(parts) == 1 else _combined(parts)
        if rows is None:
            raise InvalidArgumentError("rows is missing; without key columns, give their number")
        return np.zeros(rows, np.int64), [()] if rows else []

    def decode(self, keys: Sequence[Hashable] | np.ndarray) -> list[pa.Array]:
        """The key columns, as Arrow carries them, of rows with these keys."""
        plain = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
        return (
            [self._kinds[0].decode(plain)] if len(self._kinds) == 1 else _fields(self._kinds, plain)
        )


class _Kind(Protocol):
    """How values of one type become hashables and come back. NULL is None."""

    def encode(self, array: pa.Array) -> Encoded: ...

    def decode(self, values: list[Any]) -> pa.Array: ...


@dataclass(frozen=True)
class _Leaf:
    """Values that are of Python type `stored` when read from an array viewed as such."""

    arrow: pa.DataType
    stored: pa.DataType

    def encode(self, array: pa.Array) -> Encoded:
        if pa.types.is_floating(self.arrow):
            array = _normal(array)
        if self.stored != self.arrow:
            array = array.view(self.stored)
        codes, distinct = _dense(array)
        return codes, distinct.to_pylist()

    def decode(self, values: list[Any]) -> pa.Array:
        array = pa.array(values, self.stored)
        return array if self.stored == self.arrow else array.view(self.arrow)


@dataclass(frozen=True)
class _Text:
    """Strings, also such that are not proper UTF-8, which Spark allows."""

    def encode(self, array: pa.Array) -> Encoded:
        codes, distinct = _dense(array)
        try:
            return codes, distinct.to_pylist()
        except UnicodeDecodeError:
            texts = distinct.cast(pa.large_binary()).to_pylist()
        return codes, [
            None if text is None else text.decode("utf-8", "surrogateescape") for text in texts
        ]

    def decode(self, values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, pa.string())
        except UnicodeEncodeError:
            texts = [
                None if text is None else text.encode("utf-8", "surrogateescape") for text in values
            ]
        return pa.array(texts, pa.binary()).view(pa.string())


@dataclass(frozen=True)
class _Void:
    """The type of a bare NULL."""

    def encode(self, array: pa.Array) -> Encoded:
        return np.zeros(len(array), np.int64), [None] if len(array) else []

    def decode(self, values: list[Any]) -> pa.Array:
        return pa.nulls(len(values))


@dataclass(frozen=True)
class _Struct:
    """A struct is a tuple of its fields."""

    names: tuple[str, ...]
    kinds: tuple[_Kind, ...]

    def encode(self, array: pa.Array) -> Encoded:
        return _with_nulls(array, self._encode)

    def decode(self, values: list[Any]) -> pa.Array:
        missing = pa.array([value is None for value in values], pa.bool_())
        if not self.kinds:
            return pa.array([None if value is None else {} for value in values], pa.struct([]))
        nothing = (None,) * len(self.kinds)
        whole = [nothing if value is None else value for value in values]
        fields = _fields(self.kinds, whole)
        return pa.StructArray.from_arrays(fields, names=self.names, mask=missing)

    def _encode(self, array: pa.Array) -> Encoded:
        if not self.kinds:
            return np.zeros(len(array), np.int64), [()] if len(array) else []
        fields = array.flatten()
        return _combined(
            [kind.encode(field) for kind, field in zip(self.kinds, fields, strict=True)]
        )


@dataclass(frozen=True)
class _List:
    """An array is a tuple of its elements."""

    kind: _Kind

    def encode(self, array: pa.Array) -> Encoded:
        return _with_nulls(array, self._encode)

    def decode(self, values: list[Any]) -> pa.Array:
        missing = pa.array([value is None for value in values], pa.bool_())
        whole = [() if value is None else value for value in values]
        offsets = pa.array([0, *accumulate(map(len, whole))], pa.int32())
        elements = self.kind.decode(list(chain.from_iterable(whole)))
        # Spark's name for elements: it compares names.
        arrow = pa.list_(pa.field("element", elements.type))
        return pa.ListArray.from_arrays(offsets, elements, type=arrow, mask=missing)

    def _encode(self, array: pa.Array) -> Encoded:
        offsets = array.offsets.to_numpy().astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        codes, distinct = self.kind.encode(array.values.slice(first, last - first))
        # Arrays are equal where the numbers of their elements are, and Arrow is fast with bytes.
        buffers = [None, pa.py_buffer((offsets - first) * 8), pa.py_buffer(codes)]
        rows, arrays = _dense(pa.Array.from_buffers(pa.large_binary(), len(array), buffers))
        return rows, [_picked(distinct, np.frombuffer(one, np.int64)) for one in arrays.to_pylist()]


def _dense(array: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """The number of each value in the order of first appearance, and the distinct values."""
    encoded = array.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def _combined(parts: Sequence[Encoded]) -> Encoded:
    """Keys of several columns, as tuples."""
    codes, distinct = parts[0]
    picks = [np.arange(len(distinct))]
    for more, others in parts[1:]:
        # Both are numbers of rows at most, so their product fits.
        codes, pairs = _dense(pa.array(codes * len(others) + more))
        before, mine = np.divmod(pairs.to_numpy(), max(len(others), 1))
        picks = [*(pick[before] for pick in picks), mine]
    values = [_picked(distinct, pick) for (_, distinct), pick in zip(parts, picks, strict=True)]
    return codes, list(zip(*values, strict=True))


def _picked(values: list[Any], at: np.ndarray) -> tuple[Any, ...]:
    return tuple(map(values.__getitem__, at.tolist()))


def _fields(kinds: Sequence[_Kind], tuples: list[Any]) -> list[pa.Array]:
    return [kind.decode([each[at] for each in tuples]) for at, kind in enumerate(kinds)]


def _with_nulls(array: pa.Array, encode: Callable[[pa.Array], Encoded]) -> Encoded:
    """Encode an array of which some rows as a whole may be NULL."""
    if not array.null_count:
        return encode(array)
    present, distinct = encode(array.drop_null())
    codes = np.full(len(array), len(distinct))
    codes[pc.is_valid(array).to_numpy(zero_copy_only=False)] = present
    ordered, places = _dense(pa.array(codes))
    return ordered, list(_picked([*distinct, None], places.to_numpy()))


def _normal(array: pa.Array) -> pa.Array:
    """Floats with one NaN and one zero."""
    nan, zero = pa.scalar(float("nan"), array.type), pa.scalar(0.0, array.type)
    return pc.if_else(pc.is_nan(array), nan, pc.add(array, zero))


_LEAVES: Final[dict[type[T.DataType], _Kind]] = {
    T.BooleanType: _Leaf(pa.bool_(), pa.bool_()),
    T.ByteType: _Leaf(pa.int8(), pa.int8()),
    T.ShortType: _Leaf(pa.int16(), pa.int16()),
    T.IntegerType: _Leaf(pa.int32(), pa.int32()),
    T.LongType: _Leaf(pa.int64(), pa.int64()),
    T.FloatType: _Leaf(pa.float32(), pa.int32()),
    T.DoubleType: _Leaf(pa.float64(), pa.int64()),
    T.BinaryType: _Leaf(pa.binary(), pa.binary()),
    T.DateType: _Leaf(pa.date32(), pa.int32()),
    T.TimeType: _Leaf(pa.time64("ns"), pa.int64()),
    T.TimestampType: _Leaf(pa.timestamp("us", "UTC"), pa.int64()),
    T.TimestampNTZType: _Leaf(pa.timestamp("us"), pa.int64()),
    T.DayTimeIntervalType: _Leaf(pa.duration("us"), pa.int64()),
    T.NullType: _Void(),
}


def _kind_of(data_type: T.DataType, name: str) -> _Kind:
    """How keys of a type are treated; `name` is the column they are of."""
    match data_type:
        case T.StringType() if data_type.isUTF8BinaryCollation():
            return _Text()
        case T.DecimalType():
            arrow = pa.decimal128(data_type.precision, data_type.scale)
            return _Leaf(arrow, arrow)
        case T.ArrayType():
            return _List(_kind_of(data_type.elementType, name))
        case T.StructType() if len(set(data_type.names)) == len(data_type.names):
            kinds = (_kind_of(field.dataType, name) for field in data_type)
            return _Struct(tuple(data_type.names), tuple(kinds))
    kind = _LEAVES.get(type(data_type))
    if kind is None:
        raise InvalidArgumentError(
            f"key: column {name!r} is or holds {data_type.simpleString()}, {_remedy(data_type)}"
        )
    return kind


def _remedy(data_type: T.DataType) -> str:
    match data_type:
        case T.StringType():
            return "which equals other strings; take lower(...) or the like of it, plain strings"
        case T.StructType():
            return "with two fields of one name; give them different names"
    return "which cannot be a key; make a column of the part that matters, or cast it to string"


def _names_in(key: str | Sequence[str]) -> list[str]:
    names = [key] if isinstance(key, str) else key
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(
            f"key is {key!r}; give the name of a column, a list of names, or [] for no key"
        )
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgumentError(f"key names {name!r} twice; name each column once")
    return list(names)


def _cast(field: T.StructField, to: T.DataType) -> Column:
    column = column_named(field.name)
    if not _has_months(field.dataType):
        return column
    # Of all year-month intervals only these are ints of the same number.
    months = _replaced(field.dataType, lambda _: _MONTHS)
    return column.cast(months).cast(to).alias(field.name)


def _retyped(field: T.StructField, months: MonthsType) -> T.StructField:
    """A key column with other types for the year-month intervals in it, if it has any.

    What lies around them may then be NULL: Spark casts to no other types.
    """
    data_type = field.dataType
    if _has_months(data_type):
        data_type = _replaced(data_type, months)
    return T.StructField(field.name, data_type, field.nullable)


def _has_months(data_type: T.DataType) -> bool:
    match data_type:
        case T.ArrayType():
            return _has_months(data_type.elementType)
        case T.StructType():
            return any(_has_months(field.dataType) for field in data_type)
    return isinstance(data_type, T.YearMonthIntervalType)


def _replaced(data_type: T.DataType, months: MonthsType) -> T.DataType:
    match data_type:
        case T.YearMonthIntervalType():
            return months(data_type)
        case T.ArrayType():
            return T.ArrayType(_replaced(data_type.elementType, months))
        case T.StructType():
            fields = [(field.name, _replaced(field.dataType, months)) for field in data_type]
            return T.StructType([T.StructField(name, inner) for name, inner in fields])
    return data_type
