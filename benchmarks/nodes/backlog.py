"""The rows that Spark and Holdfast both read: seeded sensor readings in Parquet files.

A bucket is a second of event time and a batch is `BUCKETS` of them, as many as a replica takes at
once, in two files, one for each core.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from holdfast.pipeline.process.replica_config import AT_ONCE

__all__ = ["BUCKETS", "FILES", "SCHEMA", "SECOND", "Backlog", "write_backlog"]

BUCKETS: Final = AT_ONCE
FILES: Final = 2
"""In a batch."""
SECOND: Final = 1_000_000
EPOCH: Final = 1_767_312_000 * SECOND
"""2 January 2026, 00:00 UTC."""
SEED: Final = 20261116
SCHEMA: Final = "at timestamp, sensor string, value bigint"


@dataclass(frozen=True)
class Backlog:
    """So many batches of so many rows."""

    batches: int
    rows_per_bucket: int
    sensors: int = 1_000

    @property
    def rows_per_batch(self) -> int:
        return self.rows_per_bucket * BUCKETS

    @property
    def rows(self) -> int:
        return self.batches * self.rows_per_batch

    @property
    def start(self) -> int:
        """Of its event time."""
        return EPOCH

    @property
    def span(self) -> int:
        """Of the event time of a batch."""
        return BUCKETS * SECOND

    @property
    def end(self) -> int:
        return self.start + self.batches * self.span


def write_backlog(folder: Path, backlog: Backlog) -> None:
    """Files in the order of their names and of their times of modification, for Spark reads them
    by these."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(SEED)
    names = pa.array([f"s{number:05}" for number in range(backlog.sensors)])
    rows = backlog.rows_per_batch // FILES
    span = BUCKETS * SECOND // FILES
    for number in range(backlog.batches * FILES):
        moments = np.sort(rng.integers(number * span, (number + 1) * span, rows)) + EPOCH
        table = pa.table(
            {
                "at": pa.array(moments, pa.timestamp("us", "UTC")),
                "sensor": names.take(pa.array(rng.integers(0, backlog.sensors, rows))),
                "value": pa.array(rng.integers(0, 1_000_000, rows)),
            }
        )
        path = folder / f"{number:04}.parquet"
        pa.parquet.write_table(table, path)
        os.utime(path, (EPOCH // SECOND + number, EPOCH // SECOND + number))
