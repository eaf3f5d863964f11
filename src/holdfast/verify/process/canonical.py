"""Canonical form of rows: columns of types that have one form and one order.

NaN has one form and zero no sign, at any depth. Every column may be NULL, whatever Spark has found
out about it in one plan or another.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from holdfast.errors import InvalidArgumentError

_PLAIN: Final = (
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
    T.TimeType,
    T.TimestampType,
    T.TimestampNTZType,
)


def canonical(stage: str, df: DataFrame) -> DataFrame:
    """The rows in canonical form, their columns numbered: c0, c1 and so on."""
    wanted = _canonical_types(stage, df.schema)
    names = [f"c{at}" for at in range(len(wanted))]
    return df.toDF(*names).select(
        *(
            _canonical_value(F.col(name), kind).cast(kind).alias(name)
            for name, kind in zip(names, wanted, strict=True)
        )
    )


def canonical_schema(stage: str, df: DataFrame) -> pa.Schema:
    """The columns of its rows in canonical form, under their own names.

    Raises InvalidArgumentError for columns that have no such form.
    """
    kinds = _canonical_types(stage, df.schema)
    fields = [T.StructField(name, kind) for name, kind in zip(df.schema.names, kinds, strict=True)]
    return to_arrow_schema(T.StructType(fields), timezone="UTC")


def spark_schema(schema: pa.Schema) -> T.StructType:
    """The same columns for Spark."""
    return from_arrow_schema(schema)


def _canonical_types(stage: str, schema: T.StructType) -> list[T.DataType]:
    if not schema.names:
        raise InvalidArgumentError(f"stage {stage}: has no columns; select at least one")
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise InvalidArgumentError(
                f"stage {stage}: has two columns called {name!r}; give them different names"
            )
    return [
        _canonical_type(f"stage {stage}: column {each.name!r}", each.dataType) for each in schema
    ]


def _canonical_type(place: str, kind: T.DataType) -> T.DataType:
    match kind:
        case T.StringType() if kind.isUTF8BinaryCollation():
            return T.StringType()
        case T.DayTimeIntervalType():
            return T.DayTimeIntervalType()
        case T.ArrayType():
            return T.ArrayType(_canonical_type(place, kind.elementType))
        case T.StructType():
            return T.StructType(
                [T.StructField(each.name, _canonical_type(place, each.dataType)) for each in kind]
            )
    if isinstance(kind, _PLAIN):
        return kind
    raise InvalidArgumentError(f"{place} is or holds {kind.simpleString()}, {_remedy(kind)}")


def _remedy(kind: T.DataType) -> str:
    match kind:
        case T.MapType():
            return "which has no order; take array_sort(map_entries(...)) of it"
        case T.StringType():
            return "of which different texts are equal; take collate(..., 'UTF8_BINARY') of it"
        case T.YearMonthIntervalType():
            return "which cannot travel; cast it to int, a number of months"
        case T.NullType():
            return "which is no type; cast it to one"
        case T.VariantType():
            return "which has no order; take to_json(...) of it, or the parts that matter"
    return "which has no order that all replicas share; take the parts that matter, or to_json(...)"


def _canonical_value(value: Column, kind: T.DataType) -> Column:
    if not _has_floats(kind):
        return value
    match kind:
        case T.ArrayType():
            element = kind.elementType
            return F.transform(value, lambda each: _canonical_value(each, element))
        case T.StructType():
            fields = [
                _canonical_value(value.getField(each.name), each.dataType).alias(each.name)
                for each in kind
            ]
            return F.when(value.isNotNull(), F.struct(*fields))
    number = F.lit(float("nan")).cast(kind)
    return F.when(F.isnan(value), number).otherwise(value + F.lit(0.0).cast(kind))


def _has_floats(kind: T.DataType) -> bool:
    match kind:
        case T.ArrayType():
            return _has_floats(kind.elementType)
        case T.StructType():
            return any(_has_floats(each.dataType) for each in kind)
    return isinstance(kind, T.FloatType | T.DoubleType)
