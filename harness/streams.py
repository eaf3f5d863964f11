"""Streams of whole numbers: who brings and reads them, and what is right.

What a stage should have published can be calculated from what the sources have logged, to the last
bit, by a few lines of plain Python.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Reader, Told
from holdfast.pipeline.process.source import SourceParty

__all__ = [
    "SCHEMA",
    "SIZE",
    "WINDOW",
    "Onlookers",
    "Row",
    "bring",
    "difference",
    "final_rows",
    "rows_of",
    "windows_of",
]

SCHEMA = pa.schema([("sensor", pa.string()), ("value", pa.int64())])
WINDOW = (
    '{ window = { keys = ["sensor"], size = "4s", slide = "2s", '
    'aggregates = ["count() AS n", "sum(value) AS total"] } }'
)
SIZE, SLIDE = 4_000_000, 2_000_000
Row = tuple[Any, ...]


class Onlookers:
    """Threads beside what is looked at: they bring rows, or read streams to their end."""

    def __init__(self) -> None:
        self._ending = Event()
        self._readers: list[Reader] = []
        self._threads: list[Thread] = []

    def repeat(self, every: float, action: Callable[[], None]) -> None:
        def run() -> None:
            while not self._ending.wait(every):
                action()

        self._start(run)

    def read(self, reader: Reader, hear: Callable[[Told], None]) -> None:
        def run() -> None:
            while not self._ending.is_set():
                told = reader.next(0.2)
                if told is not None:
                    hear(told)

        self._readers.append(reader)
        self._start(run)

    def read_timed(self, reader: Reader, told: list[tuple[float, Told]]) -> None:
        """Note also when it was told."""
        self.read(reader, lambda each: told.append((time.time(), each)))

    def _start(self, target: Callable[[], None]) -> None:
        thread = Thread(target=target, daemon=True)
        thread.start()
        self._threads.append(thread)

    def close(self) -> None:
        self._ending.set()
        for reader in self._readers:
            reader.close()
        for thread in self._threads:
            thread.join()


def bring(source: SourceParty, name: str, values: Sequence[int], sensors: int = 3) -> None:
    """A row for each; they are lost if it has no room."""
    names = [f"{name}{value % sensors}" for value in values]
    with suppress(HoldfastError):
        source.take(pa.table({"sensor": names, "value": values}, schema=SCHEMA))


def final_rows(told: Sequence[tuple[float, Told]]) -> list[Row]:
    return [
        row
        for _, each in told
        if each.kind is Kind.INSERT and each.rows is not None
        for row in rows_of(each.rows)
    ]


def windows_of(rows: Sequence[Row], end: int) -> list[Row]:
    """The windows of 4 s, every 2 s, that have ended by then: count and sum for each sensor."""
    sums: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    for moment, sensor, value in rows:
        first = moment // SLIDE * SLIDE + SLIDE
        for until in range(first, moment + SIZE + 1, SLIDE):
            if until - SIZE <= moment:
                sums[until, sensor][0] += 1
                sums[until, sensor][1] += value
    return [
        (until - 1, sensor, until - SIZE, until, n, total)
        for (until, sensor), (n, total) in sorted(sums.items())
        if until <= end
    ]


def rows_of(table: pa.Table) -> list[Row]:
    """Plain values, times as microseconds, windows as their two ends."""
    columns: list[Any] = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            columns.append(column.cast(pa.int64()).to_pylist())
        elif pa.types.is_struct(column.type):
            joined = column.combine_chunks()
            columns += [joined.field(at).cast(pa.int64()).to_pylist() for at in (0, 1)]
        else:
            columns.append(column.to_pylist())
    return list(zip(*columns, strict=True))


def difference(who: str, rows: Sequence[Row], right: Sequence[Row]) -> str:
    for at, (one, other) in enumerate(zip(rows, right, strict=False)):
        if one != other:
            return f"{who}: row {at} is {one}, right is {other}"
    return f"{who}: has {len(rows)} rows, right are {len(right)}"
