from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from holdfast.intervals import parse_interval
from holdfast.pipeline.topology import Span


@given(st.integers(0, 2**63 - 1))
def test_a_span_is_written_as_the_interval_it_is(microseconds: int) -> None:
    span = Span(microseconds)
    assert span == microseconds
    assert parse_interval("span", str(span)) == microseconds
    assert pickle.loads(pickle.dumps(span)) == span


def test_the_largest_unit_is_used() -> None:
    assert [str(Span(span)) for span in (0, 1, 500_000, 90_000_000, 3_600_000_000)] == [
        "0s",
        "1us",
        "500ms",
        "90s",
        "1h",
    ]
