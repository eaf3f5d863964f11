"""Field types of topologies: columns, expressions, aggregates, functions, topics, delays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.aggregates import Aggregate
from holdfast.config.durations import Span
from holdfast.config.fields import Interval, interval, listed, matching, read_text
from holdfast.config.problems import show
from holdfast.config.settings import Kind, Refused, Setting, optional
from holdfast.pipeline.topology.columns import Column, check_column, read_columns, read_schema
from holdfast.pipeline.topology.expressions import (
    read_aggregate,
    read_expression,
    read_query,
    write_aggregate,
)


def _read_delay(value: Any) -> Span | float:
    if value in ("forever", math.inf):
        return math.inf
    return interval().read(value)


def retention() -> Setting[Interval | None, Span | None]:
    """Field of tables whose party has a log."""
    return optional(
        interval(),
        "How much of its log is kept for readers that have not acknowledged it; more than the "
        "`max_delay` and the windows downstream together.",
        example='"10m"',
        default="all of it",
    )


def _read_topic(value: Any) -> str:
    """A filter of MQTT: `+` is one level, `#` all that follow; each alone between slashes."""
    topic = read_text(value)
    levels = topic.split("/")
    misplaced = "#" in levels[:-1] or any(
        sign in level and level != sign for level in levels for sign in "#+"
    )
    if misplaced or len(topic.encode()) > 65535:
        raise Refused.because(
            f"{show(value)} is no filter of topics",
            "let + and # stand alone between slashes, # at the end: sensors/+/value, sensors/#",
        )
    return topic


FUNCTION: Final = matching(
    r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*",
    "a Python function",
    "write module:function, such as 'fleet.cleaning:clean'",
)
URL: Final = matching(
    r"[a-z][a-z0-9+.-]*://[!-~]*",
    "the URL of a database",
    "write it as 'sqlite:///fleet.db' or 'postgresql://host/database'",
    hidden=True,
)
COLUMN: Final = Kind[str, str]("a column", check_column)
COLUMNS: Final = Kind[Iterable[str], tuple[str, ...]]("a list of columns", read_columns, list)
SCHEMA: Final = Kind[Mapping[str, str] | Iterable[tuple[str, str]], tuple[Column, ...]](
    "a table of columns and their types", read_schema, dict
)
EXPRESSION: Final = Kind[str, str]("an expression in SQL", read_expression)
EXPRESSIONS: Final = listed("a list of expressions in SQL", read_expression)
QUERY: Final = Kind[str, str]("a SELECT over the input", read_query)
AGGREGATES: Final[Kind[Iterable[str | Aggregate], tuple[Aggregate, ...]]] = listed(
    "a list of aggregates", read_aggregate, write_aggregate
)
TOPICS: Final = listed("a list of topics", _read_topic)
DELAY: Final = Kind[Interval | float, Span | float](
    'an interval or "forever"',
    _read_delay,
    lambda kept: "forever" if kept == math.inf else str(kept),
)
