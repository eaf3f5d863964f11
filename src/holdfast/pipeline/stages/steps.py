"""Steps of a stage that look at each row alone: SQL, SELECT, Python functions.

Orders pass through: no expression is evaluated for them, so none can fail. Every row keeps where it
came from, so that the log has one order whatever Spark does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.stages.rows import (
    BUCKET,
    ENTRY,
    HIDDEN,
    PLACE,
    Places,
    check_columns,
    each_chunk,
    gate_schema,
    is_data,
    is_row,
    row_columns,
)
from holdfast.pipeline.topology import Function, Select, Sql, Where

# What Spark makes of the SQL in a step, looked at before it runs.
#
# Each row must be looked at alone, and come out the same on every replica.

_UNSTEADY: Final = frozenset({"Now", "LocalTimestamp", "SparkVersion", "AesEncrypt"})
"""Expressions that Spark takes for deterministic and that differ between replicas, or from one
batch to the next, beside those called Current-something. Encryption begins with a random number."""
_QUERIES: Final = frozenset({"Exists", "InSubquery", "ListQuery"})


def analyse(place: str, df: DataFrame, make: Callable[[DataFrame], DataFrame], node: str) -> Any:
    """What `make` makes of a DataFrame with the columns of a stream. `node` is what the plan has
    more then: a Project or a Filter, and nothing beside it."""
    try:
        made = make(df)
        plan = made._jdf.queryExecution().analyzed()
    except (AnalysisException, ParseException) as error:
        message = str(error).strip().split("\n", 1)[0].split(" SQLSTATE:", 1)[0].rstrip(".")
        raise InvalidArgumentError(
            f"{place}: {message}; write SQL of Spark over the columns {', '.join(df.columns)}"
        ) from None
    known = len(list(_nodes(df._jdf.queryExecution().analyzed())))
    nodes = list(_nodes(plan))
    _check_nodes(place, [each.nodeName() for each in nodes[: len(nodes) - known]], node)
    for expression in _each(plan.expressions()):
        _check_expression(place, expression)
    return made


def _check_nodes(place: str, found: list[str], wanted: str) -> None:
    if "Generate" in found:
        raise InvalidArgumentError(
            f"{place}: makes several rows of one, which has no order that all replicas share; use "
            "a function step, whose rows have one"
        )
    if found != [wanted]:
        raise InvalidArgumentError(
            f"{place}: looks at more than one row, or leaves some out; use a window step for what "
            "is to be aggregated, and where for conditions"
        )


def _check_expression(place: str, expression: Any) -> None:
    for each in _expressions(expression):
        kind = each.getClass().getSimpleName()
        if kind in _QUERIES or kind.endswith("Subquery"):
            raise InvalidArgumentError(
                f"{place}: asks for other data than the row has; calculate from the columns alone, "
                "or join with a stream"
            )
        if kind in _UNSTEADY or kind.startswith("Current") or not each.deterministic():
            raise InvalidArgumentError(
                f"{place}: {each.prettyName()} differs between replicas; calculate from the "
                "columns alone, the time of a row is stime"
            )


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _each(plan.children()):
        yield from _nodes(child)


def _expressions(expression: Any) -> Iterator[Any]:
    """The innermost first, so that it is named what is at fault."""
    for child in _each(expression.children()):
        yield from _expressions(child)
    yield expression


def _each(some: Any) -> Iterator[Any]:
    iterator = some.iterator()
    while iterator.hasNext():
        yield iterator.next()


# A SELECT over the input, taken apart: the columns it selects and its condition.
#
# Spark itself reads what is in the parts; here only commas, brackets, quotes, comments and the
# words FROM and WHERE count.

_TOKEN: Final = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?\*/)
    | (?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)
    | (?P<word>\w+)
    | (?P<open>[(\[])
    | (?P<close>[)\]])
    | (?P<comma>,)
    | (?P<other>\s+|.)
    """,
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True)
class SelectText:
    columns: tuple[str, ...]
    where: str | None


def take_apart(place: str, text: str) -> SelectText:
    """`place` is what errors call the text."""
    parts: dict[str, list[str]] = {}
    clause, depth = "", 0
    for token in _TOKEN.finditer(text):
        said, kind = token.group(), token.lastgroup
        word = said.upper() if kind == "word" and not depth else ""
        if word in ("SELECT", "FROM", "WHERE"):
            if word in parts:
                raise _refused(place)
            clause = word
            parts[clause] = [""]
            continue
        if kind == "comment" or (not clause and said.isspace()):
            said = " "
        elif not clause:
            raise _refused(place)
        depth += (kind == "open") - (kind == "close")
        if clause == "SELECT" and kind == "comma" and not depth:
            parts[clause].append("")
        elif clause:
            parts[clause][-1] += said
    if list(parts) not in (["SELECT", "FROM"], ["SELECT", "FROM", "WHERE"]):
        raise _refused(place)
    if parts["FROM"][0].strip().lower() not in ("input", "`input`"):
        raise _refused(place)
    where = parts["WHERE"][0].strip() if "WHERE" in parts else None
    return SelectText(tuple(each.strip() for each in parts["SELECT"]), where)


def _refused(place: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{place}: cannot be taken apart; write SELECT columns FROM input WHERE condition, "
        "with nothing behind it and `input` without another name"
    )


# The step that calls a Python function: over the rows of one chunk at a time.
#
# So what it answers does not depend on how Spark cuts its batches, even if it looks at several
# rows.

_DTYPES: Final = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
}
"""As what a function sees these, nulls or not; pandas would make floats of them."""


def load_function(place: str, name: str, folder: str) -> Callable[[Any], Any]:
    """The function that `module:name` names; modules may lie in the folder of the topology.
    `place` is what errors call the step."""
    module, _, function = name.partition(":")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = attrgetter(function)(import_module(module))
    except Exception as error:
        raise InvalidArgumentError(
            f"{place}.function: {name} cannot be loaded ({type(error).__name__}: {error}); put "
            f"{module.partition('.')[0]}.py beside the topology, or install it where the replica "
            "runs"
        ) from error
    if not callable(found):
        raise InvalidArgumentError(
            f"{place}.function: {name} is no function; name one that can be called"
        )
    return found


def call_function(
    df: DataFrame, name: str, columns: StructType, place: str, folder: str
) -> DataFrame:
    """`columns`: those of what it answers."""
    load_function(place, name, folder)
    schema = gate_schema(StructType([df.schema[STIME], *columns.fields]))
    return df.mapInArrow(partial(_run, name, folder, place, schema), schema)


def _run(
    name: str, folder: str, place: str, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    function = load_function(place, name, folder)
    arrow = to_arrow_schema(schema, timezone="UTC")
    for chunk in each_chunk(batches):
        if is_data(chunk):
            yield _made(function, place, chunk, arrow)
        else:
            yield _passed(chunk, arrow)


def _passed(orders: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        orders[field.name] if field.name in (*HIDDEN, STIME) else pa.nulls(len(orders), field.type)
        for field in schema
    ]
    return pa.record_batch(columns, schema=schema)


def _made(
    function: Callable[[Any], Any], place: str, rows: pa.RecordBatch, schema: pa.Schema
) -> pa.RecordBatch:
    """What the function makes of rows: the index of its answer says which row each came from."""
    frame = rows.drop_columns(list(HIDDEN)).to_pandas(types_mapper=_DTYPES.get)
    answer = function(frame)
    if not isinstance(answer, pd.DataFrame):
        raise InvalidArgumentError(
            f"{place}: the function answered {type(answer).__name__}; answer a pandas DataFrame"
        )
    source = _sources(answer, len(rows), place)
    order = np.argsort(source, kind="stable")
    answer, source = answer.iloc[order], pa.array(source[order], pa.int64())
    entry, bucket, which = (int(rows[ENTRY][0]), int(rows[BUCKET][0]), int(Places(rows).which[0]))
    # By the rows they came from, so in an order that does not contradict theirs.
    columns = row_columns(entry, which, bucket, len(answer))
    columns[STIME] = rows[STIME].take(source)
    for field in schema:
        if field.name not in columns:
            columns[field.name] = _column(answer, field, place)
    return pa.record_batch([columns[field.name] for field in schema], schema=schema)


def _sources(answer: pd.DataFrame, rows: int, place: str) -> np.ndarray:
    index = np.asarray(answer.index)
    if not len(index):
        return np.zeros(0, np.int64)
    if index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= rows:
        raise InvalidArgumentError(
            f"{place}: the index of the answer is not that of rows that went in; keep the index, "
            "so that it is known which row each came from"
        )
    return index.astype(np.int64)


def _column(answer: pd.DataFrame, field: pa.Field, place: str) -> pa.Array:
    found = list(answer.columns).count(field.name)
    if found != 1:
        has = f"{found} columns" if found else "no column"
        raise InvalidArgumentError(
            f"{place}: the function's answer has {has} {field.name}; its schema says it has one"
        )
    try:
        column = pa.Array.from_pandas(answer[field.name], type=field.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise InvalidArgumentError(
            f"{place}: column {field.name} is not {field.type} ({error}); answer what its schema "
            "says"
        ) from None
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


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
    return df.select(PLACE, STIME, *map(F.expr, _select_list(df, selected)))


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
    expressions = _select_list(df, selected)
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


def _select_list(df: DataFrame, selected: Sequence[str]) -> list[str]:
    """With all columns in the place of a star."""
    everything = [_quoted(name) for name in df.columns if name not in (STIME, *HIDDEN)]
    expressions: list[str] = []
    for each in selected:
        expressions += everything if each.strip() == "*" else [each]
    return expressions


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
