"""Rows of every type that a stream can carry, as files that Spark reads by itself."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.stages.compile import Compiled, compile_stage
from holdfast.pipeline.stages.entries import Entry, Order, Piece, PieceReader
from holdfast.pipeline.stages.query import Handover, is_possible
from holdfast.pipeline.stages.rows import ENTRY, PLACE
from holdfast.pipeline.topology import Push, Select, Stage, Stream, Topology, Where, Window
from holdfast.storage.chunks import Chunk, digest_of

VALUES: dict[str, list[Any]] = {
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
    "array<int>": [[], [1, None]],
    "struct<a:string,b:array<double>>": [{"a": None, "b": [nan]}, {"a": "x", "b": None}],
}
GAPS = [timedelta(days=-3, microseconds=1), timedelta(0)]
"""No source has these, but a stage may."""


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    columns = {f"Col {at}.`": kind for at, kind in enumerate(VALUES)}
    window = Window(size="3s", keys=[], aggregates=["count() AS n"])
    stages = {
        "all": (["a", "b"], []),
        "few": (["a", "b"], [Where("`Col 3.``` > 0"), Select(["`Col 3.``` AS x"])]),
        "gaps": (["a"], [Select(["make_dt_interval(1) AS gap"])]),
        "after": (["gaps"], []),
        "windows": (["a"], [Where("true"), window]),
    }
    return Topology(
        name="t",
        bucket="1s",
        home=tmp_path,
        streams={
            name: Stream(source=Push(schema=columns), address=f"127.0.0.1:{7200 + at}")
            for at, name in enumerate("ab")
        },
        stages={
            name: Stage(inputs=inputs, replicas=[f"127.0.0.1:{7210 + at}"], steps=steps)
            for at, (name, (inputs, steps)) in enumerate(stages.items())
        },
    )


def table_of(compiled: Compiled, values: list[list[Any]]) -> pa.Table:
    """Rows of the first input: in each column one value, a null and the other value."""
    schema = to_arrow_schema(compiled.inputs[0], timezone="UTC")
    times = pa.array([1, 2, 3]).cast(schema.field(STIME).type)
    columns = [
        pa.array([one, None, other], field.type)
        for (one, other), field in zip(values, list(schema)[1:], strict=True)
    ]
    return pa.table([times, *columns], schema=schema)


def through(spark: SparkSession, compiled: Compiled, folder: Path, *tables: pa.Table) -> pa.Table:
    pieces = tuple(Piece(which, 0, Chunk.of(table)) for which, table in enumerate(tables))
    entry = Entry(7, Order.WORK, 0, 1_000_000, pieces=pieces)
    made = Handover(compiled, folder, PieceReader(("127.0.0.1", 1), None), 2).rows(spark, entry)
    assert not folder.exists()
    return made


@pytest.mark.parametrize(
    ("stage", "values"), [("all", list(VALUES.values())), ("after", [GAPS])], ids=["all", "gaps"]
)
def test_rows_come_as_they_are(
    spark: SparkSession, topology: Topology, tmp_path: Path, stage: str, values: list[list[Any]]
) -> None:
    compiled = compile_stage(spark, topology, stage)
    assert is_possible(spark, compiled)
    table = table_of(compiled, values)
    made = through(spark, compiled, tmp_path / "files", table, table)
    assert made[ENTRY].to_pylist() == [7] * 6
    assert made[PLACE].to_pylist() == [0, 1, 2, 2**40, 2**40 + 1, 2**40 + 2]
    own = made.drop_columns([ENTRY, PLACE]).cast(table.schema)
    assert digest_of(own) == digest_of(pa.concat_tables([table, table]))


def test_steps_are_carried_out(spark: SparkSession, topology: Topology, tmp_path: Path) -> None:
    compiled = compile_stage(spark, topology, "few")
    table = table_of(compiled, list(VALUES.values()))
    made = through(spark, compiled, tmp_path / "files", table, table)
    assert made.column_names == [ENTRY, PLACE, STIME, "x"]
    assert made["x"].to_pylist() == [2, 2]


def test_what_has_a_state_goes_through_the_gate(spark: SparkSession, topology: Topology) -> None:
    assert not is_possible(spark, compile_stage(spark, topology, "windows"))
