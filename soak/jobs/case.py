"""A case for crash tests of windows on Spark: the rows and what is asked of them, from a seed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import holdfast
from holdfast import aggregates as agg
from holdfast.time_windows import TimeWindow
from holdfast.windows import monoids, policies

__all__ = ["Case", "Row"]

START = 1_700_000_000_000_000
"""About when the rows were measured, in microseconds."""
SECOND = 1_000_000

ROWS = pa.schema(
    {
        "id": pa.int64(),
        "ts": pa.timestamp("us", tz="UTC"),
        "site": pa.string(),
        "sensor": pa.int32(),
        "value": pa.float64(),
        "amount": pa.int64(),
    }
)

Row = dict[str, Any]


class Case:
    """The rows, file by file, and the windows over them."""

    def __init__(self, seed: int, files: int = 8) -> None:
        rng = random.Random(seed)
        self.seed = seed
        self.files = files
        self.rows_per_file = rng.choice([40, 150, 400])
        self.slide = rng.choice([SECOND // 2, SECOND, 5 * SECOND])
        self.size = self.slide * rng.choice([2, 3, 10, 60])
        self.offset = rng.choice([0, self.slide // 4])
        self.step = self.slide * rng.choice([1, 3, 10])
        """How far one file is ahead of the one before."""
        self.delay = self.slide * rng.choice([1, 4])
        self.key = rng.choice([["site", "sensor"], ["sensor"]])
        self.several = rng.random() < 0.3
        self.empty = rng.choice([None, None, 2 * self.size])
        self.sensors = [None, *range(rng.choice([2, 6]))]
        self.sites = [None, "", "north", "Süd"]
        self.end = START + files * self.step + 4 * self.size
        """A row far after all others, so that all windows end."""
        self.last = rng.choice([*5 * [None], 1, 7, 40])
        """In place of windows in time: the newest rows of each key, so many."""

    def windows(self) -> list[TimeWindow]:
        main = TimeWindow(self.size, self.slide, self.offset, "main")
        twice = TimeWindow(2 * self.size, 2 * self.size, self.offset, "twice")
        return [main, twice] if self.several else [main]

    def rows(self, file: int) -> Iterator[Row]:
        """The rows of one file, in their order; no two rows have the same time."""
        if file >= self.files:
            yield self._last_row(file)
            return
        rng = random.Random(self.seed * 1_000_003 + file)
        # Few keys, so that shards fall silent.
        keys = [(rng.choice(self.sites), rng.choice(self.sensors)) for _ in range(3)]
        for number in range(self.rows_per_file):
            site, sensor = rng.choice(keys)
            behind = rng.choice([0, 0, 0, self.delay]) * rng.random()
            if rng.random() < 0.05:
                behind = rng.uniform(self.delay, 3 * (self.size + self.delay + self.step))
            ahead = (file + (number + 1) / self.rows_per_file) * self.step
            unique = file * self.rows_per_file + number
            time = START + int(ahead - behind) // 10_000 * 10_000 + unique
            yield {
                "id": unique,
                "ts": time,
                "site": site,
                "sensor": sensor,
                "value": rng.choice([None, float("nan"), -0.0, *20 * [rng.lognormvariate(0, 9)]]),
                "amount": rng.choice([None, *9 * [rng.randrange(-(2**40), 2**40)]]),
            }

    def _last_row(self, file: int) -> Row:
        """Two of them: when the second comes the watermark is at the first, and all else answered.

        What ends only after the last rows is answered in a batch without data, which Spark leaves
        out when it starts anew.
        """
        null: Row = dict.fromkeys(ROWS.names)
        return null | {"id": -file, "ts": self.end - file}

    def write(self, folder: Path) -> None:
        folder.mkdir()
        for file in range(self.files + 2):
            path = folder / f"{file:03d}.parquet"
            pq.write_table(pa.Table.from_pylist(list(self.rows(file)), schema=ROWS), path)
            # Spark takes files in the order of these times.
            os.utime(path, (START // SECOND + file, START // SECOND + file))

    def over(self, rows: DataFrame, late: str | None = None) -> DataFrame:
        """The windows over a DataFrame, streaming or not."""
        return holdfast.window(
            rows,
            key=self.key,
            time="ts",
            aggs=[
                agg.count(),
                agg.sum("amount"),
                agg.min("amount"),
                agg.max("amount"),
                agg.first("id"),
                agg.last("id"),
                agg.sum("value"),
                agg.min("value"),
                agg.stddev("value"),
                agg.first("value"),
                agg.approx_distinct("amount"),
                agg.approx_quantiles("value", [0.1, 0.5, 0.9]),
                agg.custom(monoids.sum, "amount", "long").alias("own"),
            ],
            late=late,
            **self._asked(),
        )

    def _asked(self) -> dict[str, Any]:
        if self.last is not None:
            return {"policy": policies.last(self.last)}
        spans = {"size": self.size, "slide": self.slide, "offset": self.offset}
        asked: dict[str, Any] = {name: timedelta(microseconds=span) for name, span in spans.items()}
        if self.several:
            asked = {"windows": self.windows()}
        if self.empty is not None:
            asked["empty"] = timedelta(microseconds=self.empty)
        return asked
