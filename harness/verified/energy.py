"""A job for replicas without Spark: its stages take Arrow tables and give one.

Three stages with two joins; the last reads both others. Sums of floating-point numbers depend on
the order of rows, so each is taken in sorted order.
"""

from __future__ import annotations

import math
from collections import defaultdict

import pyarrow as pa

from holdfast.verify import Job

job = Job("energy", slices=2)
job.source("readings", "data/readings.parquet")
job.source("contracts", "data/contracts.parquet")


@job.stage
def hourly(readings: pa.Table) -> pa.Table:
    wh = defaultdict(list)
    for row in readings.to_pylist():
        wh[row["meter"], row["minute"] // 60].append(row["wh"])
    return pa.Table.from_pylist(
        [
            {"meter": meter, "hour": hour, "wh": math.fsum(values)}
            for (meter, hour), values in wh.items()
        ],
        pa.schema([("meter", pa.string()), ("hour", pa.int64()), ("wh", pa.float64())]),
    )


@job.stage
def charges(hourly: pa.Table, contracts: pa.Table) -> pa.Table:
    known = {row["meter"]: row for row in contracts.to_pylist()}
    return pa.Table.from_pylist(
        [
            {
                "meter": row["meter"],
                "customer": known[row["meter"]]["customer"],
                "cents": row["wh"] * known[row["meter"]]["price"],
            }
            for row in hourly.to_pylist()
            if row["meter"] in known
        ],
        pa.schema([("meter", pa.string()), ("customer", pa.string()), ("cents", pa.float64())]),
    )


@job.stage
def bills(charges: pa.Table, hourly: pa.Table) -> pa.Table:
    hours: dict[str, set[int]] = defaultdict(set)
    for row in hourly.to_pylist():
        hours[row["meter"]].add(row["hour"])
    cents: dict[str, list[float]] = defaultdict(list)
    seen: dict[str, set[int]] = defaultdict(set)
    for row in charges.to_pylist():
        cents[row["customer"]].append(row["cents"])
        seen[row["customer"]] |= hours[row["meter"]]
    return pa.Table.from_pylist(
        [
            {"customer": customer, "cents": math.fsum(values), "hours": len(seen[customer])}
            for customer, values in cents.items()
        ],
        pa.schema([("customer", pa.string()), ("cents", pa.float64()), ("hours", pa.int64())]),
    )
