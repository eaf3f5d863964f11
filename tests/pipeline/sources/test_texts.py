"""Times and dates that are written as text."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from holdfast.pipeline.sources.inlets import as_read, parsed

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC"))])
NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-03-01T12:00:00Z", NOON),
        ("2026-03-01 12:00:00", NOON),
        ("2026-03-01T12:00", NOON),
        ("2026-03-01T14:00:00+02:00", NOON),
        ("2026-03-01T14:00:00.000000+0200", NOON),
        ("2026-03-01T06:00:00-06", NOON),
        (" 2026-03-01 12:00:00.25 ", NOON.replace(microsecond=250_000)),
        ("2026-03-01", NOON.replace(hour=0)),
        (None, None),
    ],
)
def test_times(text: str | None, time: datetime | None) -> None:
    table = pa.table([[text]], schema=as_read(SCHEMA))
    assert parsed(table, SCHEMA)["at"].to_pylist() == [time]


@pytest.mark.parametrize("text", ["", "noon", "2026-13-01T12:00:00Z", "1772366400", "12:00:00"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        parsed(pa.table([[text]], schema=as_read(SCHEMA)), SCHEMA)


def test_other_columns() -> None:
    schema = pa.schema([("d", pa.date32()), ("n", pa.timestamp("us")), ("s", pa.string())])
    table = pa.table([["2026-03-01"], ["2026-03-01T12:00:00"], ["x"]], schema=as_read(schema))
    assert parsed(table, schema).to_pylist() == [
        {"d": date(2026, 3, 1), "n": NOON.replace(tzinfo=None), "s": "x"}
    ]


def test_bytes_that_are_no_text_are_refused() -> None:
    schema = pa.schema([("s", pa.string())])
    broken = pa.array([b"\xff"], pa.binary()).view(pa.string())
    with pytest.raises(pa.ArrowInvalid):
        parsed(pa.table([broken], schema=schema), schema)
