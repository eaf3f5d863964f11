"""History of a stream as a reader saw it: pieces, and rows by key.

Written by the thread that reads the stream, read by requests. Times of arrival are in seconds since
1970, event times in microseconds.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from holdfast.console.history import HOUR
from holdfast.pipeline.machine.tuples import STIME, Kind
from holdfast.pipeline.process.reader import Told
from holdfast.pipeline.topology import Window

MOST_PIECES: Final = 40_000
"""Ten a second for an hour, and some."""
MOST_BYTES: Final = 48 << 20
"""Of the rows of one stream; the oldest are given up first."""
MOST_ROWS: Final = 5_000
"""Of one piece; more do not fit into a chart."""
MOST_KEYS: Final = 500
"""A person chooses one of them."""
ANSWERED: Final = 2_400
"""Pieces in one answer: as many as a screen has columns."""
BOUNDARY: Final = "boundary"

KINDS: Final = {
    Kind.INSERT: "stable",
    Kind.TENTATIVE: "tentative",
    Kind.UNDO: "undo",
    Kind.REC_DONE: "corrected",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a row goes into a chart."""

    keys: tuple[str, ...]
    values: tuple[str, ...]
    is_windowed: bool

    @classmethod
    def of(cls, schema: pa.Schema, window: Window | None) -> Shape:
        """Without a window every column of text is a key. Counts come last: what is shown first is
        what somebody has asked for."""
        keys: Sequence[str] = [each.name for each in schema if types.is_string(each.type)]
        counts: set[str] = set()
        if window is not None:
            keys = window.keys
            counts = {each.name for each in window.aggregates if each.function == "count"}
        numbers = [each.name for each in schema if _is_number(each.type) and each.name not in keys]
        numbers.sort(key=counts.__contains__)
        return cls(
            tuple(name for name in keys if name in schema.names),
            tuple(numbers),
            _window_end(schema) is not None,
        )


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _window_end(schema: pa.Schema) -> int | None:
    """Which column is a window with an end."""
    for place, column in enumerate(schema):
        if types.is_struct(column.type):
            names = [column.type.field(at).name for at in range(column.type.num_fields)]
            if {"start", "end"} <= set(names) and types.is_timestamp(
                column.type.field(names.index("end")).type
            ):
                return place
    return None


@dataclass(slots=True)
class _Rows:
    """The rows of a piece: which key, when, and the values."""

    keys: np.ndarray[Any, np.dtype[np.int32]]
    times: np.ndarray[Any, np.dtype[np.int64]]
    values: np.ndarray[Any, np.dtype[np.float64]]

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes + self.times.nbytes + self.values.nbytes)


@dataclass(slots=True)
class _Piece:
    number: int
    at: float
    kind: str
    boundary: int
    count: int
    rows: _Rows | None


class Pieces:
    """Of one stream. `window`: of the stage that publishes it, if it ends with one."""

    def __init__(self, window: Window | None = None, seconds: float = HOUR) -> None:
        self._window = window
        self._seconds = seconds
        self._pieces: list[_Piece] = []
        self._bytes = 0
        self._full_from = 0
        """The pieces before this have given up their rows."""
        self._labels: dict[str, int] = {}
        self._lock = Lock()
        self.shape: Shape | None = None
        self.number = 0
        """Of the newest piece."""

    def add(self, at: float, told: Told) -> None:
        kind, count, rows = KINDS[told.kind], 0, None
        if told.kind in (Kind.INSERT, Kind.TENTATIVE):
            if told.rows is None or not len(told.rows):
                kind = BOUNDARY if told.kind is Kind.INSERT else kind
            else:
                count = len(told.rows)
        with self._lock:
            if count:
                rows = self._take(told.rows)
            self.number += 1
            self._pieces.append(_Piece(self.number, at, kind, told.boundary, count, rows))
            self._bytes += 0 if rows is None else rows.nbytes
            self._forget(at - self._seconds)

    def _take(self, table: pa.Table) -> _Rows:
        table = table.slice(0, MOST_ROWS)
        if self.shape is None:
            self.shape = Shape.of(table.schema, self._window)
        shape = self.shape
        columns = [table.column(name).to_pylist() for name in shape.keys]
        labels = [" · ".join(map(str, each)) for each in zip(*columns, strict=True)]
        codes = [self._code(label) for label in labels or [""] * len(table)]
        values = [_floats(table.column(name)) for name in shape.values]
        return _Rows(
            np.array(codes, dtype=np.int32),
            _times(table),
            np.stack(values) if values else np.empty((0, len(table))),
        )

    def _code(self, label: str) -> int:
        found = self._labels.get(label)
        if found is None:
            if len(self._labels) >= MOST_KEYS:
                return -1
            found = self._labels[label] = len(self._labels)
        return found

    def _forget(self, before: float) -> None:
        old = bisect_left(self._pieces, before, key=lambda piece: piece.at)
        old = max(old, len(self._pieces) - MOST_PIECES)
        # Many at a time: taking from the front of a list costs its length.
        if old > 256 or (old and old == len(self._pieces)):
            self._bytes -= sum(piece.rows.nbytes for piece in self._pieces[:old] if piece.rows)
            del self._pieces[:old]
            self._full_from = max(0, self._full_from - old)
        while self._bytes > MOST_BYTES and self._full_from < len(self._pieces):
            piece = self._pieces[self._full_from]
            if piece.rows is not None:
                self._bytes -= piece.rows.nbytes
                piece.rows = None
            self._full_from += 1

    @property
    def keys(self) -> list[str]:
        """All that were seen."""
        with self._lock:
            return sorted(self._labels)

    def told(
        self, start: float, end: float, *, key: str = "", column: str = "", after: int = 0
    ) -> list[list[Any]]:
        """What was told between two times: number, time of arrival, kind, boundary, number of
        rows, and [event time, value] of those of the key. Times in milliseconds."""
        shape = self.shape
        with self._lock:
            first = bisect_left(self._pieces, start, key=lambda piece: piece.at)
            last = bisect_right(self._pieces, end, key=lambda piece: piece.at)
            chosen = self._pieces[max(first, last - ANSWERED) : last]
            code = self._labels.get(key, -2)
            place = -1
            if shape is not None and column in shape.values:
                place = shape.values.index(column)
            return [
                [
                    piece.number,
                    round(piece.at * 1000),
                    piece.kind,
                    piece.boundary / 1000,
                    piece.count,
                    _points(piece.rows, code, place),
                ]
                for piece in chosen
                if piece.number > after
            ]


def _points(rows: _Rows | None, code: int, place: int) -> list[list[float | None]]:
    if rows is None or place < 0:
        return []
    chosen = np.flatnonzero(rows.keys == code)
    return [
        [time / 1000, value if math.isfinite(value) else None]
        for time, value in zip(
            rows.times[chosen].tolist(), rows.values[place, chosen].tolist(), strict=True
        )
    ]


def _times(table: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """When the window of each row ends, or its own event time."""
    place = _window_end(table.schema)
    column = table.column(STIME)
    if place is not None:
        column = pa.chunked_array(
            [chunk.field("end") for chunk in table.column(place).chunks],
            type=table.schema[place].type.field("end").type,
        )
    in_us = column.cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64()).fill_null(0)
    return np.array(in_us, dtype=np.int64)


def _floats(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Nulls as NaN."""
    return np.array(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
