"""Which rows fit the input that they are for."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdfast.pipeline.machine.messages import Again, Feed, Gap, Item, Preview, Stable
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.pipeline.process.reader import Fitting
from holdfast.storage.chunks import Chunk

SIZE = 10
TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [pa.field("stime", TIME, nullable=False), ("value", pa.int32()), ("name", pa.string())]
)
FITTING = Fitting({"clean": SCHEMA}, SIZE)


def columns(**other: Any) -> pa.Table:
    good = {
        "stime": pa.array([20, 29], TIME),
        "value": pa.array([1, None], pa.int32()),
        "name": ["a", "b"],
    }
    return pa.table(good | other)


def stable(table: pa.Table) -> Stable:
    return Stable(Segment(20, 30, (Row(20, None, Chunk.of(table)),)))


def feed(*items: Item, stream: str = "clean") -> Feed:
    return Feed(stream, 1, 2, items)


@pytest.mark.parametrize(
    "table",
    [
        columns(),
        columns(value=pa.array([1, 2], pa.int64()), name=pa.array(["a", "b"], pa.large_string())),
        columns().slice(0, 0),
    ],
)
def test_what_can_be_read_as_the_input_is_left_as_it_is(table: pa.Table) -> None:
    message = feed(stable(table), Stable(Segment(30, 40, ())))
    assert FITTING.of(message) is message


@pytest.mark.parametrize(
    "table",
    [
        columns(more=[1, 2]),
        columns().drop_columns(["name"]),
        columns().select(["value", "stime", "name"]),
        columns(value=["one", "two"]),
        columns(value=pa.array([2**40, 1], pa.int64())),
        columns(stime=pa.array([20, None], TIME)),
        columns(stime=pa.array([20, 30], TIME)),
        columns(stime=pa.array([-(2**60), 20], TIME)),
        pa.table({}),
    ],
)
def test_what_cannot_be_read_is_as_if_it_were_not_kept(table: pa.Table) -> None:
    good = Stable(Segment(30, 40, ()))
    assert FITTING.of(feed(stable(table), good)) == feed(Gap(30), good)
    again = Again(stable(table).segment, 1)
    assert FITTING.of(feed(again)) == feed(Gap(30))


def test_other_streams_and_previews_are_not_looked_at() -> None:
    strange = stable(pa.table({"x": [1]}))
    for message in (feed(strange, stream="other"), feed(Preview(strange.segment))):
        assert FITTING.of(message) is message
