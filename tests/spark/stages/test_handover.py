"""Rows of every type that a stream can carry, as files that Spark reads by itself."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, nan

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from holdfast.spark.stages.compile import compile_stage
from holdfast.spark.stages.entries import Entry, Order, Piece
from holdfast.spark.stages.handover import Handover, is_possible
from holdfast.spark.stages.pieces import PieceReader
from holdfast.spark.stages.rows import ENTRY, PLACE
from holdfast.topology import Push, Select, Stage, Stream, Topology, Where, Window
from holdfast.tuples import STIME
from holdfast.wire.chunks import Chunk, digest_of

VALUES = {
    "boolean": [True, False],
    "tinyint": [-128, 127],
    "smallint": [-(2**15), 1],
    "int": [-(2**31), 2],
    "bigint": [-(2**63), 2**63 - 1],
    "float": [-0.0, inf],
    "double": [nan, 5e-324],
    "decimal(5,2)": [Decimal("-999.99"), Decimal("0.01")],
    "decimal(38,10)": [Decimal("9" * 28), Decimal("-1.5")],
    "string": ["", "\U0001f600 a.b"],
    "binary": [b"", b"\x00\xff"],
    "date": [date(1, 1, 1), date(9999, 12, 31)],
    "timestamp": [datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 11, 17, 1, 2, 3, 4, tzinfo=UTC)],
    "timestamp_ntz": [datetime(1500, 1, 1), datetime(2026, 11, 17, 1, 2, 3, 4)],
    "interval day to second": [timedelta(days=-3, microseconds=1), timedelta(0)],
    "array<int>": [[], [1, None]],
    "struct<a:string,b:array<double>>": [{"a": None, "b": [nan]}, {"a": "x", "b": None}],
}
COLUMNS = {f"Col {at}.`": kind for at, kind in enumerate(VALUES)}


@pytest.fixture
def topology(tmp_path) -> Topology:
    window = Window(size="3s", keys=[], aggregates=["count() AS n"])
    steps = {
        "all": [],
        "few": [Where("`Col 3.``` > 0"), Select(["`Col 3.``` AS x"])],
        "windows": [Where("true"), window],
    }
    return Topology(
        name="t",
        bucket="1s",
        home=tmp_path,
        streams={
            name: Stream(source=Push(schema=COLUMNS), address=f"127.0.0.1:{7200 + at}")
            for at, name in enumerate("ab")
        },
        stages={
            name: Stage(inputs=["a", "b"], replicas=[f"127.0.0.1:{7210 + at}"], steps=some)
            for at, (name, some) in enumerate(steps.items())
        },
    )


def test_rows_come_as_they_are(spark, topology, tmp_path) -> None:
    compiled = compile_stage(spark, topology, "all")
    schema = to_arrow_schema(compiled.published, timezone="UTC")
    columns = [
        pa.array([value[0], None, value[1]], field.type)
        for value, field in zip(VALUES.values(), list(schema)[1:], strict=True)
    ]
    times = pa.array([1, 2, 3]).cast(schema.field(STIME).type)
    table = pa.table([times, *columns], schema=schema)
    pieces = tuple(Piece(which, 0, Chunk.of(table)) for which in (0, 1))
    reader = PieceReader(("127.0.0.1", 1), None)
    assert is_possible(spark, compiled)
    made = Handover(compiled, tmp_path / "files", reader, 2).rows(
        spark, Entry(7, Order.WORK, 0, 1_000_000, pieces=pieces)
    )
    assert made[ENTRY].to_pylist() == [7] * 6
    assert made[PLACE].to_pylist() == [0, 1, 2, 2**40, 2**40 + 1, 2**40 + 2]
    own = made.drop_columns([ENTRY, PLACE]).cast(schema)
    assert digest_of(own) == digest_of(pa.concat_tables([table, table]))
    assert not (tmp_path / "files").exists()
    few = compile_stage(spark, topology, "few")
    made = Handover(few, tmp_path / "files", reader, 2).rows(
        spark, Entry(8, Order.WORK, 0, 1, pieces=pieces)
    )
    assert made.column_names == [ENTRY, PLACE, STIME, "x"]
    assert made["x"].to_pylist() == [2, 2]


def test_what_has_a_state_goes_through_the_gate(spark, topology) -> None:
    assert not is_possible(spark, compile_stage(spark, topology, "windows"))
