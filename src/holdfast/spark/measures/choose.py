"""Choice of strategy and codec of an aggregate for a column of a type, and refusals.

Called by `holdfast.spark.dataframe` on the driver, before a query starts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from holdfast.aggregates import Aggregate
from holdfast.errors import InvalidArgumentError
from holdfast.spark.columns import field_named
from holdfast.spark.measures.arrow_codecs import (
    Answers,
    Fixed,
    Floats,
    Form,
    Nested,
    OrderCodes,
    PythonValues,
    Scaled,
    Texts,
    Truths,
)
from holdfast.spark.measures.measure import Measure
from holdfast.spark.measures.strategies import Bounds, Counting, Folding, Picking, Way
from holdfast.windows import monoids
from holdfast.windows.columns import Columns, sql
from holdfast.windows.columns.values import INT64

__all__ = ["measure_of"]

WIDEST: Final = 38
"""The most digits that a decimal of Spark has."""

DAY: Final = 86_400_000_000

_VARIANCES: Final = {
    "variance": (sql.VARIANCE, 2),
    "variance_population": (sql.VARIANCE_POPULATION, 1),
    "stddev": (sql.STDDEV, 2),
    "stddev_population": (sql.STDDEV_POPULATION, 1),
}
"""And how many values each needs."""

_ORDERED: Final = (
    t.NumericType,
    t.StringType,
    t.BinaryType,
    t.BooleanType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
    t.DayTimeIntervalType,
)


def measure_of(aggregate: Aggregate, schema: t.StructType) -> Measure:
    """The measure of an aggregate of `aggs` over rows of this schema.

    Raises InvalidArgumentError if there is no such column or it has no such aggregate.
    """
    if not isinstance(aggregate, Aggregate):
        raise InvalidArgumentError(
            f"aggs: {aggregate!r} is no aggregate; make it with holdfast.aggregates, as in "
            "agg.sum('value')"
        )
    if aggregate.column is None:
        return _measure(aggregate, "", t.LongType(), Counting())
    column = _Column(aggregate, _type_of(aggregate, schema))
    choose: dict[str, Callable[[_Column], tuple[t.DataType, Way]]] = {
        "count": _count,
        "sum": _sum,
        "mean": _mean,
        "min": partial(_extreme, sql.LEAST),
        "max": partial(_extreme, sql.GREATEST),
        "range": _range,
        "first": partial(_pick, False),
        "last": partial(_pick, True),
        "approx_distinct": _distinct,
        "approx_quantiles": _quantiles,
        "custom": _custom,
        **{name: partial(_variance, *how) for name, how in _VARIANCES.items()},
    }
    if aggregate.function not in choose:
        raise InvalidArgumentError(
            f"aggs: there is no aggregate {aggregate.function!r}; use one of holdfast.aggregates"
        )
    result, way = choose[aggregate.function](column)
    return _measure(aggregate, f"{aggregate.column!r} {column.type.simpleString()}", result, way)


def _measure(aggregate: Aggregate, of: str, result: t.DataType, way: Way) -> Measure:
    parameters = ", ".join(map(repr, aggregate.parameters))
    if aggregate.monoid is not None:
        parameters = f"{aggregate.monoid.signature!r}, {result.simpleString()}"
    return Measure(
        name=aggregate.name,
        source=aggregate.column,
        signature=f"{aggregate.function}({of})[{parameters}]",
        result_type=result,
        arrow_type=_arrow(result),
        way=way,
    )


def _arrow(kind: t.DataType) -> pa.DataType:
    return to_arrow_type(kind, timezone="UTC")


def _type_of(aggregate: Aggregate, schema: t.StructType) -> t.DataType:
    what = f"aggs: {aggregate.function}({aggregate.column})"
    return field_named(schema, str(aggregate.column), what).dataType


class _Column:
    """A column and what is asked of it: what the choices below have in common."""

    def __init__(self, aggregate: Aggregate, kind: t.DataType) -> None:
        self.aggregate = aggregate
        self.type = kind.sqlType() if isinstance(kind, t.UserDefinedType) else kind
        self.declared = kind
        self.label = f"{aggregate.function}({aggregate.column})"
        try:
            self.arrow = _arrow(self.type)
        except PySparkException:
            raise self.refuse("needs a type that Arrow has", "string") from None

    def refuse(self, needs: str, cast: str) -> InvalidArgumentError:
        name = self.aggregate.column
        return InvalidArgumentError(
            f"aggs: {self.label} {needs}, {name} is {self.type.simpleString()}; "
            f"cast it: F.col({name!r}).cast({cast!r})"
        )

    def need_number(self) -> None:
        if not isinstance(self.type, t.NumericType):
            raise self.refuse("needs numbers", "double")

    def need_order(self) -> None:
        if not isinstance(self.type, _ORDERED):
            raise self.refuse("needs values that have an order", "string")
        self.need_plain_strings()

    def need_plain_strings(self) -> None:
        if isinstance(self.type, t.StringType) and not self.type.isUTF8BinaryCollation():
            raise self.refuse(
                "needs strings that compare byte by byte", "string collate utf8_binary"
            )

    def bounds(self, result: t.DataType) -> Bounds:
        greatest, casts = int(INT64.max), "cast('decimal(38,0)') or .cast('double')"
        if isinstance(result, t.DecimalType):
            greatest, casts = 10**result.precision - 1, "cast('double')"
        return Bounds(
            f"aggs: {self.label}",
            greatest,
            f"does not fit into {result.simpleString()}; cast the column before: "
            f"F.col({self.aggregate.column!r}).{casts}",
        )


def _form(kind: pa.DataType) -> Form:
    if pa.types.is_boolean(kind):
        return Truths()
    if pa.types.is_decimal(kind):
        return Scaled(kind)
    if pa.types.is_primitive(kind):
        return Fixed(kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return Texts(kind)
    return Nested(kind)


def _count(column: _Column) -> tuple[t.DataType, Way]:
    return t.LongType(), Counting()


def _sum(column: _Column) -> tuple[t.DataType, Way]:
    column.need_number()
    kind = column.type
    if isinstance(kind, t.FloatType | t.DoubleType):
        return t.DoubleType(), Folding(sql.FLOAT_SUM, Floats(), Floats())
    total: t.DataType = t.LongType()
    if isinstance(kind, t.DecimalType):
        total = t.DecimalType(min(kind.precision + 10, WIDEST), kind.scale)
    return total, _whole(sql.WHOLE_SUM, column, total)


def _whole(columns: Columns, column: _Column, result: t.DataType) -> Folding:
    """A fold of whole numbers that has one for its answer, if it fits."""
    return Folding(
        columns, _form(column.arrow), _form(_arrow(result)), bounds=column.bounds(result)
    )


def _mean(column: _Column) -> tuple[t.DataType, Way]:
    column.need_number()
    kind = column.type
    if not isinstance(kind, t.DecimalType):
        return t.DoubleType(), Folding(sql.FLOAT_MEAN, _form(column.arrow), Floats())
    mean = t.DecimalType(min(kind.precision + 4, WIDEST), min(kind.scale + 4, WIDEST))
    return mean, _whole(sql.whole_mean(10 ** (mean.scale - kind.scale)), column, mean)


def _extreme(columns: Columns, column: _Column) -> tuple[t.DataType, Way]:
    column.need_order()
    form = _form(column.arrow)
    return column.declared, Folding(columns, form, form)


def _range(column: _Column) -> tuple[t.DataType, Way]:
    kind = column.type
    if isinstance(kind, t.FloatType | t.DoubleType):
        return t.DoubleType(), Folding(sql.span(), Floats(), Floats())
    result: t.DataType
    if isinstance(kind, t.IntegralType):
        result = t.LongType()
    elif isinstance(kind, t.DecimalType):
        result = t.DecimalType(min(kind.precision + 1, WIDEST), kind.scale)
    elif isinstance(kind, t.DateType):
        result = t.DayTimeIntervalType(t.DayTimeIntervalType.DAY, t.DayTimeIntervalType.DAY)
    elif isinstance(kind, t.TimestampType | t.TimestampNTZType):
        result = t.DayTimeIntervalType()
    elif isinstance(kind, t.DayTimeIntervalType):
        result = kind
    else:
        raise column.refuse("needs numbers or times", "double")
    unit = DAY if isinstance(kind, t.DateType) else 1
    return result, _whole(sql.span(unit), column, result)


def _variance(columns: Columns, least: int, column: _Column) -> tuple[t.DataType, Way]:
    column.need_number()
    return t.DoubleType(), Folding(columns, Floats(), Floats(), least=least)


def _pick(latest: bool, column: _Column) -> tuple[t.DataType, Way]:
    floating = pa.types.is_floating(column.arrow)
    form = OrderCodes(column.arrow) if floating else _form(column.arrow)
    return column.declared, Picking(latest, form)


def _distinct(column: _Column) -> tuple[t.DataType, Way]:
    column.need_plain_strings()
    (lg_k,) = column.aggregate.parameters
    monoid = monoids.approx_distinct(lg_k)
    gather = partial(sql.sketch_distinct, lg_k)
    counts = Fixed(pa.int64())
    return t.LongType(), Folding(monoid, _form(column.arrow), counts, gather=gather, nothing=0)


def _quantiles(column: _Column) -> tuple[t.DataType, Way]:
    column.need_number()
    probabilities, k = column.aggregate.parameters
    result = t.ArrayType(t.DoubleType(), containsNull=False)
    answers = Answers(_arrow(result), column.label, result.simpleString())
    gather = partial(sql.sketch_quantiles, k)
    return result, Folding(sql.quantiles(probabilities, k), Floats(), answers, gather=gather)


def _custom(column: _Column) -> tuple[t.DataType, Way]:
    monoid, declared = column.aggregate.monoid, column.aggregate.result
    assert monoid is not None
    assert declared is not None
    result: Any
    try:
        result = t.DataType.fromDDL(declared)
        answers = Answers(_arrow(result), f"aggs: {column.label}", declared)
    except PySparkException:
        raise InvalidArgumentError(
            f"aggs: {column.label}: result is {declared!r}; give a type in Spark's DDL such as "
            "'double' or 'array<string>'"
        ) from None
    return result, Folding(monoid, PythonValues(), answers)
