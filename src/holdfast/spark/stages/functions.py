"""The step that calls a Python function: over the rows of one chunk at a time.

So what it answers does not depend on how Spark cuts its batches, even if it looks at several rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.errors import InvalidArgumentError
from holdfast.spark.stages.rows import (
    BUCKET,
    ENTRY,
    HIDDEN,
    Places,
    each_chunk,
    gate_schema,
    is_data,
    row_columns,
)
from holdfast.tuples import STIME

__all__ = ["call_function", "load_function"]

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
