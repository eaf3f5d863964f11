"""The queries whose rates are compared: the steps of a stage, and the same in Spark's own words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

__all__ = ["QUERIES", "Query"]


@dataclass(frozen=True)
class Query:
    name: str
    words: str
    steps: str
    """Of the stage, in TOML."""
    on_spark: Callable[[DataFrame], DataFrame]


def _filtered(rows: DataFrame) -> DataFrame:
    return rows.where("value % 5 <> 0").selectExpr("at", "sensor", "value * 2 AS value")


def _window(size: int, slide: int) -> Query:
    step = {
        "keys": ["sensor"],
        "size": f"{size}s",
        "slide": f"{slide}s",
        "aggregates": ["count() AS n", "sum(value) AS total"],
    }
    fields = ", ".join(f"{name} = {json.dumps(value)}" for name, value in step.items())

    def on_spark(rows: DataFrame) -> DataFrame:
        span = F.window("at", f"{size} seconds", f"{slide} seconds")
        timed = rows.withWatermark("at", "0 seconds")
        return timed.groupBy(span, "sensor").agg(
            F.count(F.lit(1)).alias("n"), F.sum("value").alias("total")
        )

    return Query(
        f"window-{size}-{slide}",
        f"window of {size} s sliding by {slide} s, count and sum for each sensor",
        f"[{{ window = {{ {fields} }} }}]",
        on_spark,
    )


QUERIES: Final = (
    Query(
        "filter",
        "filter and calculation, four rows of five go on",
        '[{ where = "value % 5 <> 0" }, { select = ["sensor", "value * 2 AS value"] }]',
        _filtered,
    ),
    _window(10, 10),
    _window(60, 10),
)
