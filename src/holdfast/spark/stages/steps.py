"""The steps of a stage that look at each row alone, on a DataFrame that also carries orders.

Orders pass through: no expression is evaluated for them, so none can fail. Every row keeps where it
came from, so that the log has one order whatever Spark does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StructField, StructType

from holdfast.errors import InvalidArgumentError
from holdfast.spark.stages.catalyst import analyse
from holdfast.spark.stages.columns import check_columns
from holdfast.spark.stages.functions import call_function
from holdfast.spark.stages.rows import HIDDEN, PLACE, is_row
from holdfast.spark.stages.selects import take_apart
from holdfast.topology import Function, Select, Sql, Where
from holdfast.tuples import STIME

__all__ = ["RowStep", "StatelessStep", "apply_step", "apply_to_rows", "schema_of"]

RowStep = Where | Select | Sql
"""Spark carries these out by itself."""
StatelessStep = RowStep | Function


def apply_step(df: DataFrame, step: StatelessStep, place: str, folder: str) -> DataFrame:
    """`place` is what errors call the step, `folder` where modules of functions may lie."""
    match step:
        case Where():
            return _where(df, step.where, f"{place}.where")
        case Select():
            return _select(df, step.select, f"{place}.select")
        case Sql():
            text = take_apart(f"{place}.sql", step.sql)
            if text.where is not None:
                df = _where(df, text.where, f"{place}.sql")
            return _select(df, text.columns, f"{place}.sql")
        case Function():
            columns = schema_of(step.schema)
            check_columns(f"{place}.schema", columns.fields)
            return call_function(df, step.function, columns, place, folder)


def apply_to_rows(df: DataFrame, step: RowStep) -> DataFrame:
    """The same where there are no orders: on rows with their place alone. `apply_step` has found
    nothing wrong with the step."""
    match step:
        case Where():
            return df.where(F.expr(step.where))
        case Select():
            selected: Sequence[str] = step.select
        case Sql():
            text = take_apart("sql", step.sql)
            if text.where is not None:
                df = df.where(F.expr(text.where))
            selected = text.columns
    return df.select(PLACE, STIME, *map(F.expr, _expressions(df, selected)))


def schema_of(columns: Sequence[Any]) -> StructType:
    """The Spark schema of columns that a topology names with their types."""
    return StructType([StructField(each.name, DataType.fromDDL(each.type)) for each in columns])


def _own(df: DataFrame) -> DataFrame:
    """What a step may know of."""
    return df.drop(*HIDDEN)


def _where(df: DataFrame, condition: str, place: str) -> DataFrame:
    analyse(place, _own(df), lambda own: own.where(F.expr(condition)), "Filter")
    return df.where(F.when(is_row(), F.expr(condition)).otherwise(F.lit(True)))


def _select(df: DataFrame, selected: Sequence[str], place: str) -> DataFrame:
    expressions = _expressions(df, selected)
    made = analyse(
        place, _own(df), lambda own: own.select(*map(F.expr, expressions)), "Project"
    ).schema
    starred = InvalidArgumentError(
        f"{place}: has a * within an expression; name the columns instead"
    )
    if len(made) != len(expressions):
        raise starred
    check_columns(place, made.fields)
    columns = [
        F.when(is_row(), F.expr(each)).alias(name)
        for each, name in zip(expressions, made.names, strict=True)
    ]
    result = df.select(*HIDDEN, STIME, *columns)
    # With the hidden columns a star means more than without them.
    if [field.dataType for field in result.schema.fields[-len(made) :]] != [
        field.dataType for field in made.fields
    ]:
        raise starred
    return result


def _expressions(df: DataFrame, selected: Sequence[str]) -> list[str]:
    """With all columns in the place of a star."""
    everything = [_quoted(name) for name in df.columns if name not in (STIME, *HIDDEN)]
    expressions: list[str] = []
    for each in selected:
        expressions += everything if each.strip() == "*" else [each]
    return expressions


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
