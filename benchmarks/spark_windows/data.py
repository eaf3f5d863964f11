"""The rows every engine reads: seeded sensor readings in files, written once under `.build`.

Each key has one row in every `every` seconds of event time, at a random moment of them. Rows arrive
up to `DELAY` seconds late, so out of order within the watermark; none is too late for any engine.
A batch is two files, one for each core. Spark orders files by their times of modification, so these
follow event time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

__all__ = ["DELAY", "FILES", "WATERMARK", "Feed", "Stretch", "write_csv", "write_parquet"]

SEED: Final = 20261116
EPOCH: Final = 1_767_312_000
"""Second 0 of event time: 2 January 2026, 00:00 UTC."""

DELAY: Final = 1.5
WATERMARK: Final = 2
"""Seconds an engine waits for rows that are late."""

FILES: Final = 2
"""Files of a batch. A key is always in the same one of them."""

BARE: Final = pa.csv.WriteOptions(include_header=False, quoting_style="none")

FORMAT: Final = 1
"""Part of every folder's name: raise it when the rows change, or old ones would be read."""


@dataclass(frozen=True)
class Feed:
    """Keys that have one row in every so many seconds each."""

    keys: int
    every: float

    @property
    def rows_per_second(self) -> float:
        return self.keys / self.every

    def __str__(self) -> str:
        return f"{self.keys:,} keys, {self.rows_per_second:,.0f} rows per second of event time"


@dataclass(frozen=True)
class Stretch:
    """Event time from second `start` up to `stop` of a feed, in batches of `step` seconds."""

    feed: Feed
    start: int
    stop: int
    step: int

    @property
    def batches(self) -> int:
        return -(-(self.stop - self.start) // self.step)

    @property
    def rows_per_batch(self) -> int:
        return round(self.feed.rows_per_second * self.step)

    @property
    def name(self) -> str:
        feed = f"{self.feed.keys}-every-{self.feed.every:g}"
        return f"v{FORMAT}-{feed}-from-{self.start}-to-{self.stop}-by-{self.step}"


def write_parquet(root: Path, stretch: Stretch) -> Path:
    """The folder with the rows of a stretch: key string, ts timestamp, value double."""

    def write(folder: Path) -> None:
        for batch in _batches(stretch):
            for lane, rows in enumerate(_lanes(batch)):
                path = folder / f"{batch.number:04}-{lane}.parquet"
                moments = pa.array(rows[0], pa.timestamp("us", "UTC"))
                pa.parquet.write_table(_table(rows, moments), path)
                _stamp(path, batch)

    return _once(root / f"{stretch.name}.parquet", write)


def write_csv(root: Path, stretch: Stretch) -> tuple[Path, Path]:
    """The rows of a stretch as text, `key,ts,value` with ts in milliseconds: cut, and in one piece.

    Spark takes whole files into a batch, so it gets the lanes cut into batches. The others get each
    lane in one piece: Flink reads the files of a folder in no order, bytewax all of them at once.
    """

    def write(folder: Path) -> None:
        for name in ("cut", "whole"):
            (folder / name).mkdir()
        for batch in _batches(stretch):
            for lane, rows in enumerate(_lanes(batch)):
                path = folder / "cut" / f"{batch.number:04}-{lane}.csv"
                pa.csv.write_csv(_table(rows, rows[0] // 1000), path, BARE)
                _stamp(path, batch)
                with open(folder / "whole" / f"{lane}.csv", "ab") as whole:
                    whole.write(path.read_bytes())

    folder = _once(root / f"{stretch.name}.csv", write)
    return folder / "cut", folder / "whole"


@dataclass(frozen=True)
class _Batch:
    number: int
    start: int
    rows: tuple[np.ndarray[Any, Any], ...]
    """Microsecond, key and value of each row, as they arrive."""


def _batches(stretch: Stretch) -> Iterator[_Batch]:
    feed = stretch.feed
    waiting = _draw(feed, stretch.start, stretch.start)
    for number in range(stretch.batches):
        start = stretch.start + number * stretch.step
        stop = min(start + stretch.step, stretch.stop)
        drawn = _draw(feed, start, stop)
        columns = [np.concatenate(pair) for pair in zip(waiting, drawn, strict=True)]
        arrived = columns[0] < stop if stop < stretch.stop else np.full(len(columns[0]), True)
        waiting = tuple(column[~arrived] for column in columns)
        columns = [column[arrived] for column in columns]
        order = np.argsort(columns[0], kind="stable")
        yield _Batch(number, start, tuple(column[order] for column in columns[1:]))


def _draw(feed: Feed, start: int, stop: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Arrival, microsecond, key and value of the rows of these seconds, in no order."""
    random = np.random.default_rng([SEED, feed.keys, round(1000 * feed.every), start % 2**32])
    rounds = round((stop - start) / feed.every)
    count = rounds * feed.keys
    moments = start + (np.repeat(np.arange(rounds), feed.keys) + random.random(count)) * feed.every
    return (
        moments + DELAY * random.random(count),
        ((EPOCH + moments) * 1e6).astype(np.int64),
        np.tile(np.arange(feed.keys, dtype=np.int32), rounds),
        random.normal(20.0, 5.0, count).round(3),
    )


def _lanes(batch: _Batch) -> Iterator[tuple[np.ndarray[Any, Any], ...]]:
    keys = batch.rows[1]
    for lane in range(FILES):
        yield tuple(column[keys % FILES == lane] for column in batch.rows)


def _table(rows: tuple[np.ndarray[Any, Any], ...], moments: Any) -> pa.Table:
    _, keys, values = rows
    names = pa.array([f"sensor-{key:06}" for key in range(int(keys.max(initial=0)) + 1)])
    named = pa.DictionaryArray.from_arrays(pa.array(keys), names).cast(pa.string())
    return pa.table({"key": named, "ts": moments, "value": values})


def _stamp(path: Path, batch: _Batch) -> None:
    os.utime(path, (EPOCH + batch.start, EPOCH + batch.start))


def _once(folder: Path, write: Callable[[Path], None]) -> Path:
    """Let `write` fill a folder unless a former run has; a run broken off leaves none."""
    if not folder.exists():
        partly = folder.with_name(f"{folder.name}.partly")
        shutil.rmtree(partly, ignore_errors=True)
        partly.mkdir(parents=True)
        write(partly)
        partly.rename(folder)
    return folder
