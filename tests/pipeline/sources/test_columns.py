"""Spark's types in Arrow: the same as Spark's own conversion gives."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from holdfast.pipeline.sources.inlets import arrow_schema, arrow_type
from holdfast.pipeline.topology import Rate, Sensors
from holdfast.pipeline.topology.columns import read_type
from tests.pipeline.sources.rig import alone

SIMPLE = [
    t.BooleanType(),
    t.ByteType(),
    t.ShortType(),
    t.IntegerType(),
    t.LongType(),
    t.FloatType(),
    t.DoubleType(),
    t.StringType(),
    t.BinaryType(),
    t.DateType(),
    t.TimestampType(),
    t.TimestampNTZType(),
]
NAMES = st.sampled_from(["a", "b_1", "with space", "tick`ed", "<odd>", "x:y,z"])
TYPES = st.recursive(
    st.sampled_from(SIMPLE) | st.builds(t.DecimalType, st.integers(10, 38), st.integers(0, 10)),
    lambda inner: (
        inner.map(t.ArrayType)
        | st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(
            lambda fields: t.StructType([t.StructField(*field) for field in fields.items()])
        )
    ),
    max_leaves=6,
)


def ddl(kind: t.DataType) -> str:
    match kind:
        case t.ArrayType():
            return f"array<{ddl(kind.elementType)}>"
        case t.StructType():
            fields = [f"`{f.name.replace('`', '``')}`: {ddl(f.dataType)}" for f in kind.fields]
            return f"struct<{', '.join(fields)}>"
    return kind.simpleString()


@given(TYPES)
def test_types_are_those_of_spark(kind: t.DataType) -> None:
    spark = to_arrow_schema(t.StructType([t.StructField("c", kind)]), timezone="UTC")
    assert arrow_type(read_type(ddl(kind))) == spark.field("c").type


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        (None, [("sensor", pa.string()), ("value", pa.float64())]),
        (
            Rate(rows_per_second=1),
            [("timestamp", pa.timestamp("us", "UTC")), ("value", pa.int64())],
        ),
        (Sensors(rows_per_second=1), [("sensor", pa.string()), ("value", pa.float64())]),
    ],
)
def test_the_columns_of_a_stream(source: object, columns: object, tmp_path: Path) -> None:
    stream = alone(tmp_path, source).streams["readings"]  # type: ignore[arg-type]
    assert arrow_schema(stream) == pa.schema(columns)
