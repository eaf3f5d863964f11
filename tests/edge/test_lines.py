"""Lines on the standard input of a sensor."""

from __future__ import annotations

import pytest

from holdfast.edge.lines import Lines
from holdfast.errors import InvalidArgumentError


def test_csv_with_times_and_keys_in_pieces() -> None:
    lines = Lines("csv", lambda: 7)
    text = b"time,value,key\n1.5,2,a\n1970-01-01T00:00:02Z,3.5,b\nx,1,a\n3,oops,a\n4,4,c"
    found = [lines.feed(text[at : at + 7]) for at in range(0, len(text), 7)] + [lines.feed(b"")]
    assert [t for batch in found for t in batch.times] == [1_500_000, 2_000_000, 4_000_000]
    assert [v for batch in found for v in batch.values] == [2.0, 3.5, 4.0]
    assert [k for batch in found for k in batch.keys or []] == ["a", "b", "c"]
    assert lines.bad == 2


def test_json_without_times_is_stamped() -> None:
    lines = Lines("jsonl", lambda: 7)
    found = lines.feed(b'{"value": 1}\n[]\n{"value": null}\nnonsense\n{"value": 2}\n')
    assert found.times.tolist() == [7, 7]
    assert found.values.tolist() == [1.0, 2.0]
    assert found.keys is None
    assert lines.bad == 3


def test_csv_without_a_value_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'value'"):
        Lines("csv", lambda: 7).feed(b"time,reading\n1,2\n")
