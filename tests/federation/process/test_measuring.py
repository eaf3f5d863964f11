from __future__ import annotations

from typing import Any

from holdfast.federation.machine import Load
from holdfast.federation.process.stages import Meter


def said(boundary: float, busy: float, rows: int, received: int) -> dict[str, Any]:
    return {
        "boundary": int(boundary * 1e6),
        "busy_seconds": busy,
        "input_rows": rows,
        "received_bytes": received,
    }


def test_a_load_is_what_was_done_for_a_span_of_the_stream() -> None:
    meter = Meter(bytes_per_second=1000)
    assert meter.look(said(100, 10.0, 500, 0)) is None
    assert meter.look(said(104, 13.0, 900, 2000)) == Load(0.75, 0.5)
    assert meter.look(said(104, 13.5, 900, 2000)) is None
    assert meter.look(said(106, 16.5, 900, 2000)) == Load(1.75, 0.0)


def test_a_load_in_rows() -> None:
    meter = Meter(bytes_per_second=1000, rows_per_second=200)
    assert meter.look(said(100, 10.0, 500, 0)) is None
    assert meter.look(said(104, 10.1, 1300, 0)) == Load(1.0)


def test_one_that_was_started_anew_is_measured_from_then_on() -> None:
    meter = Meter(bytes_per_second=1000)
    for status in (said(100, 10.0, 500, 0), said(102, 0.5, 3, 0), {}):
        assert meter.look(status) is None
    assert meter.look(said(104, 1.5, 3, 0)) is None
    assert meter.look(said(106, 2.5, 3, 0)) == Load(0.5)
