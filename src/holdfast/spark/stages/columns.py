"""Which columns a stream may have: those that can travel, be hashed and be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import types as T  # noqa: N812

from holdfast.errors import InvalidArgumentError
from holdfast.spark.stages.rows import HIDDEN
from holdfast.tuples import STIME

__all__ = ["as_nullable", "check_columns"]

_CARRIED: Final = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.DayTimeIntervalType,
)


def check_columns(place: str, fields: Sequence[T.StructField]) -> None:
    """Refuse what no stream can have; `fields` are the columns beside `stime`."""
    seen: set[str] = set()
    for field in fields:
        name = field.name
        if name.lower() in (STIME, *HIDDEN):
            raise InvalidArgumentError(
                f"{place}: {name} is a name that Holdfast needs itself; give the column another"
            )
        if name.lower() in seen:
            raise InvalidArgumentError(
                f"{place}: there are two columns {name} (case does not count); write AS and "
                "another name for one of them"
            )
        seen.add(name.lower())
        if not _is_carried(field.dataType):
            raise InvalidArgumentError(
                f"{place}: column {name} is {field.dataType.simpleString()}, which no stream can "
                "carry; cast it, or take it apart into columns"
            )


def _is_carried(data_type: T.DataType) -> bool:
    match data_type:
        case T.StringType():
            return bool(data_type.isUTF8BinaryCollation())
        case T.ArrayType():
            return _is_carried(data_type.elementType)
        case T.StructType():
            return bool(data_type.fields) and all(_is_carried(each.dataType) for each in data_type)
    return type(data_type) in _CARRIED


def as_nullable(data_type: T.DataType) -> T.DataType:
    """The type whose parts may all be null. Spark knows of some that they are never null, and not
    always the same ones."""
    match data_type:
        case T.ArrayType():
            return T.ArrayType(as_nullable(data_type.elementType))
        case T.StructType():
            return T.StructType(
                [T.StructField(each.name, as_nullable(each.dataType)) for each in data_type]
            )
    return data_type
