"""What is kept of a stream: the pieces that were told, and the values of a key."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.console import stream_history as pieces_module
from holdfast.console.stream_history import Pieces
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Told
from tests.console.fake_fleet import NOW, SECOND, fleet_topology, windows

WINDOW = fleet_topology(Path()).stages["sums"].window


def told(pieces: Pieces, key: str = "north", column: str = "total") -> list[list[object]]:
    return pieces.told(0, NOW * 2, key=key, column=column)


def test_pieces_come_as_they_were_told() -> None:
    pieces = Pieces(WINDOW)
    pieces.add(NOW + 1, windows([NOW], {"north": 7, "south": 9}))
    pieces.add(NOW + 2, windows([NOW + 1], {"north": 3}, Kind.TENTATIVE))
    pieces.add(NOW + 3, Told(Kind.UNDO, NOW * SECOND))
    pieces.add(NOW + 4, Told(Kind.INSERT, (NOW + 1) * SECOND))
    pieces.add(NOW + 5, Told(Kind.REC_DONE, (NOW + 1) * SECOND))
    ms = NOW * 1000
    assert told(pieces) == [
        [1, ms + 1000, "stable", ms, 2, [[ms, 7.0]]],
        [2, ms + 2000, "tentative", ms + 1000, 1, [[ms + 1000, 3.0]]],
        [3, ms + 3000, "undo", ms, 0, []],
        [4, ms + 4000, "boundary", ms + 1000, 0, []],
        [5, ms + 5000, "corrected", ms + 1000, 0, []],
    ]
    assert pieces.keys == ["north", "south"]
    assert [piece[0] for piece in pieces.told(NOW + 2, NOW + 4, key="south")] == [2, 3, 4]
    assert [piece[0] for piece in pieces.told(0, NOW + 9, after=3)] == [4, 5]


def test_counts_are_not_what_is_shown_first() -> None:
    pieces = Pieces(WINDOW)
    pieces.add(NOW, windows([NOW], {"north": 7}))
    assert pieces.shape is not None
    assert pieces.shape.keys == ("sensor",)
    assert pieces.shape.values == ("total", "n")
    assert pieces.shape.is_windowed


def test_rows_without_a_window_are_shown_by_their_own_time() -> None:
    schema = pa.schema(
        [("stime", pa.timestamp("us", "UTC")), ("sensor", pa.string()), ("celsius", pa.float64())]
    )
    rows = pa.table(
        {"stime": [NOW * SECOND + 5000] * 2, "sensor": ["a", "b"], "celsius": [1.5, None]},
        schema=schema,
    )
    pieces = Pieces()
    pieces.add(NOW, Told(Kind.INSERT, (NOW + 1) * SECOND, rows))
    assert told(pieces, "a", "celsius")[0][-1] == [[NOW * 1000 + 5.0, 1.5]]
    assert told(pieces, "b", "celsius")[0][-1] == [[NOW * 1000 + 5.0, None]]


def test_rows_without_a_key_are_of_one_that_has_no_name() -> None:
    schema = pa.schema([("stime", pa.timestamp("us", "UTC")), ("n", pa.int64())])
    pieces = Pieces()
    rows = pa.table({"stime": [NOW * SECOND], "n": [4]}, schema=schema)
    pieces.add(NOW, Told(Kind.INSERT, NOW * SECOND + 1, rows))
    assert pieces.keys == [""]
    assert told(pieces, "", "n")[0][-1] == [[NOW * 1000.0, 4.0]]


def test_what_is_older_than_an_hour_goes() -> None:
    pieces = Pieces(WINDOW, seconds=100)
    for second in range(2000):
        pieces.add(NOW + second, windows([NOW + second], {"north": second}))
    kept = told(pieces)
    assert kept[-1][0] == 2000
    assert 100 <= len(kept) <= 100 + 1 + 256
    assert pieces._bytes == sum(piece.rows.nbytes for piece in pieces._pieces if piece.rows)


def test_rows_are_given_up_before_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces_module, "MOST_BYTES", 10_000)
    pieces = Pieces(WINDOW)
    for second in range(1000):
        pieces.add(NOW + second, windows([NOW + second], {"north": 1, "south": 2}))
    assert pieces._bytes <= 10_000
    kept = told(pieces)
    assert len(kept) == 1000
    assert kept[0][-1] == []
    assert kept[-1][-1] == [[(NOW + 999) * 1000, 1.0]]


def test_many_keys_and_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces_module, "MOST_KEYS", 5)
    monkeypatch.setattr(pieces_module, "MOST_ROWS", 8)
    pieces = Pieces(WINDOW)
    pieces.add(NOW, windows([NOW], {f"s{number:02}": number for number in range(20)}))
    assert pieces.keys == ["s00", "s01", "s02", "s03", "s04"]
    assert told(pieces)[0][4] == 20
    assert told(pieces, "s19")[0][-1] == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from([Kind.INSERT, Kind.TENTATIVE]),
            st.dictionaries(st.sampled_from("abc"), st.integers(-(2**53), 2**53), min_size=1),
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from("abc"),
)
def test_the_values_of_a_key_are_exact(given_: list[tuple[Kind, dict[str, int]]], key: str) -> None:
    pieces = Pieces(WINDOW)
    for second, (kind, sensors) in enumerate(given_):
        pieces.add(NOW + second, windows([NOW + second], sensors, kind))
    found = [value for piece in told(pieces, key) for _, value in piece[-1]]  # type: ignore[attr-defined]
    assert found == [sensors[key] for _, sensors in given_ if key in sensors]
    assert all(math.isfinite(value) for value in found)
