"""Seeded cases for windows on Spark: rows that come in batches, out of order, twice, late; and a
driver that takes them through the operator without a JVM."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from zlib import crc32

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.tws_tester import TwsTester
from pyspark.sql.types import StructType

from holdfast.spark.operator import ShardProcessor
from holdfast.spark.partials import pack
from holdfast.spark.plan import Plan

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


@dataclass(frozen=True)
class Windows:
    """A window as both sides are asked for it, in microseconds, with the delay of the watermark."""

    size: int
    slide: int
    offset: int
    delay: int

    def pane_end(self, time: int) -> int:
        """Where the pane of a time ends: the nearest start or end of any window after it."""
        ends = [
            edge + ((time - edge) // self.slide + 1) * self.slide
            for edge in (self.offset, self.offset + self.size)
        ]
        return min(ends)


def some_windows(rng: random.Random) -> Windows:
    slide = rng.choice([SECOND, 3 * SECOND, 10 * SECOND, 250_000, 60 * SECOND])
    ratio = rng.choice([1, 2, 3, 6, 10, 60])
    size = slide * ratio + rng.choice([0, 0, slide // 2])
    offset = rng.choice([0, 0, slide // 3 // 1000 * 1000, -slide // 4 // 1000 * 1000])
    delay = rng.choice([0, slide // 2, 2 * slide, size]) // 1000 * 1000
    return Windows(size, slide, offset, delay)


def some_batches(rng: random.Random, windows: Windows, keys: list[Any]) -> list[list[dict]]:
    """Rows (id, key, ts, whole, part) in batches; one in a few comes twice, under two ids."""
    now = 1_700_000_000 * SECOND + rng.randrange(10**9)
    batches: list[list[dict]] = []
    ids = count()
    for _ in range(rng.randrange(1, 7)):
        batch = []
        for _ in range(rng.randrange(0, 25)):
            spread = rng.choice([windows.slide, windows.size, 3 * windows.size, windows.delay + 1])
            row = {
                "key": rng.choice(keys),
                "ts": now + rng.randrange(-spread, spread + 1),
                "whole": rng.choice([None, rng.randrange(-1000, 1000), rng.randrange(2**40)]),
                "part": rng.choice([None, rng.randrange(-40, 40) / 2, rng.randrange(-40, 40) / 2]),
            }
            batch += [{"id": next(ids), **row} for _ in range(rng.choice([1, 1, 1, 2]))]
        batches.append(batch)
        now += rng.choice([0, windows.slide, windows.size, 2 * windows.size + windows.delay])
    return batches


def shard_of(key: Any) -> int:
    """Any shard, as long as equal keys have the same."""
    return crc32(repr(key + 0.0 if isinstance(key, float) else key).encode()) % 2


class Driven:
    """The operator of a plan, fed batch by batch as Spark feeds it."""

    def __init__(self, plan: Plan, schema: StructType, delay: int) -> None:
        self.plan = plan
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self.delay = delay
        self.tester = TwsTester(
            ShardProcessor(plan), timeMode="eventTime", eventTimeExtractor=lambda row: 2**60
        )
        self.newest = 0
        self.watermark = 0
        self.counts: list[Row] = []

    def feed(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """One batch, and the batch without rows that Spark runs when the watermark has moved."""
        answers = []
        for shard in range(2):
            own = [row for row in rows if shard_of(row["key"]) == shard]
            if own:
                answers += self._read(self.tester.test(shard, list(self._blobs(own, shard))))
        self.newest = max([self.newest, *(row["ts"] for row in rows)])
        watermark = (self.newest - self.delay) // 1000
        if watermark > self.watermark:
            self.watermark = watermark
            answers += self._read(self.tester.setWatermark(watermark))
        return answers

    def _blobs(self, rows: list[dict[str, Any]], shard: int) -> Iterator[Row]:
        table = pa.Table.from_pylist(
            [{**row, "ts": moment(row["ts"])} for row in rows], schema=self.schema
        )
        columns = {"s": pa.array([shard] * len(rows), pa.int32()), "t": table["ts"]}
        columns |= {f"k{i}": table[key.name] for i, key in enumerate(self.plan.keys.fields)}
        columns |= {f"v{i}": table[source] for i, source in enumerate(self.plan.sources)}
        if self.plan.late is not None:
            columns["r"] = table.to_struct_array()
        packed = pa.table(columns).combine_chunks().to_batches(max_chunksize=7)
        for batch in pack(self.plan, iter(packed)):
            for blob in batch["blob"].to_pylist():
                yield Row(shard=shard, blob=blob)

    def _read(self, rows: list[Row]) -> list[dict[str, Any]]:
        self.counts += rows
        return [
            answer
            for row in rows
            if row.blob is not None
            for answer in pa.ipc.open_stream(row.blob).read_all().to_pylist()
        ]
