"""Lines on the standard input of a sensor."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from holdfast.edge.process.event_input import LineReader, Lines
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


NOW = 1_700_000_000_000_000


@pytest.mark.parametrize(
    "line",
    [
        b'{"value": 1, "key": ["a", "b"]}',
        b'{"value": 1, "key": {"a": 1}}',
        b'{"value": 1, "key": "' + b"k" * 10_000 + b'"}',
        b'{"value": 1, "key": "\\ud800"}',
        b'{"value": 1, "time": 1e300}',
        b'{"value": 1, "time": 1e12}',
        b'{"value": 1, "time": 1700086401}',
        b'{"value": 1, "time": "9999-12-31T00:00:00"}',
        b'{"value": 1, "time": -1}',
        b'{"value": 1, "time": NaN}',
        b'{"value": 1, "time": Infinity}',
        b'{"value": 1, "time": [1]}',
        b'{"value": [1]}',
        b'{"value": {}}',
        b'{"value": null}',
        b'{"value": 1' + b"0" * 400 + b"}",
        b"9" * 10_000,
        b"[" * 200_000,
        b'{"a":' * 50_000,
        b'"value"',
        b"[1]",
        b"null",
        b"\xff\xfe\x00\x01",
        b"\x00" * 100,
        b"x" * (3 << 20),
    ],
)
def test_no_line_of_json_ends_a_sensor(line: bytes) -> None:
    lines = Lines("jsonl", lambda: NOW)
    found = []
    for at in range(0, len(line), 1 << 16):
        found += lines.feed(line[at : at + (1 << 16)]).values.tolist()
    found += lines.feed(b'\n{"value": 2}\n').values.tolist()
    assert found == [2.0]
    assert lines.bad == 1


@pytest.mark.parametrize(
    "line", [b"1,2,3", b"x" * 200_000, b'"' + b"a" * 200_000, b"\x00,1", b"1,1e300", b'"1', b"\xff"]
)
def test_no_line_of_csv_ends_a_sensor(line: bytes) -> None:
    lines = Lines("csv", lambda: NOW)
    assert lines.feed(b"\xef\xbb\xbfvalue,time\n").values.tolist() == []
    assert lines.feed(line + b"\n2,1700000001\n").values.tolist() == [2.0]
    assert lines.bad == 1


def test_keys_are_text_and_lines_end_at_line_feeds() -> None:
    lines = Lines("jsonl", lambda: NOW)
    text = '{"value": 1, "key": 7}\n{"value": 2, "key": "a\u2028b"}\r\n{"value": 3, "key": true}\n'
    batch = lines.feed(text.encode() + b'{"value": 4, "key": ""}\n{"value": 5}\n')
    assert batch.keys == ["7", "a\u2028b", "true", None, None]
    assert lines.bad == 0


def test_memory_does_not_grow_with_a_line_that_never_ends() -> None:
    lines = Lines("jsonl", lambda: NOW)
    for _ in range(200):
        lines.feed(b"x" * (1 << 16))
    assert len(lines._rest) <= 1 << 20
    assert lines.feed(b'x\n{"value": 1}\n').values.tolist() == [1.0]
    assert lines.bad == 1


def test_an_input_that_cannot_be_read_has_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        reader = LineReader(descriptor)
        deadline = time.monotonic() + 10
        while (data := reader.next()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert data == b""
        assert reader.ended
        assert "cannot be read" in caplog.text
    finally:
        os.close(descriptor)
