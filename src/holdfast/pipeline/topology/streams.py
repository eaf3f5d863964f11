"""Streams that come from outside, and their sources."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from holdfast.config.durations import Span
from holdfast.config.fields import (
    ADDRESS,
    FLAG,
    HOST,
    NUMBER,
    TEXT,
    VARIABLE,
    Interval,
    choice,
    inline,
    interval,
    whole,
)
from holdfast.config.settings import Setting, optional, setting, table
from holdfast.pipeline.topology.columns import Column
from holdfast.pipeline.topology.fields import COLUMN, DELAY, SCHEMA, TOPICS, retention

IDLE: Final = 60_000_000
"""Of a source that knows whether rows would come if there were any."""
NOTICED: Final = 45_000_000
"""So long it may take such a source to notice that they would not."""

Schema = Setting[Mapping[str, str] | Iterable[tuple[str, str]], tuple[Column, ...]]


def _schema() -> Schema:
    return setting(
        SCHEMA,
        "The columns and their types in Spark's DDL. All rows have these and `stime`, the event "
        "time.",
        example='{ sensor = "string", value = "double" }',
    )


@table
class Push:
    """Rows that any Arrow Flight client pushes."""

    schema: Schema = _schema()


@table
class Files:
    """Rows of files."""

    path: Setting[str, str] = setting(
        TEXT, "A file, or a folder of files, relative to the topology.", example='"readings"'
    )
    format: Setting[str, str] = setting(
        choice("parquet", "csv", "jsonl"),
        "How they are written; CSV with a line of column names, JSON as one object per line.",
        example='"csv"',
    )
    schema: Schema = _schema()
    pace: Setting[float | None, float | None] = optional(
        NUMBER, "How many rows to read a second.", example="1000", default="as fast as possible"
    )
    follow: Setting[bool, bool] = setting(
        FLAG, "Whether to watch for new files.", example="false", default=True
    )


@table
class Rate:
    """Spark's rate source: rows with a `timestamp` and a `value` that counts up."""

    schema: ClassVar = (Column("timestamp", "timestamp"), Column("value", "bigint"))

    rows_per_second: Setting[float, float] = setting(NUMBER, "How many rows.", example="1000")


@table
class Sensors:
    """Simulated sensors: rows with a `sensor` and a `value` that wanders."""

    schema: ClassVar = (Column("sensor", "string"), Column("value", "double"))

    rows_per_second: Setting[float, float] = setting(
        NUMBER, "How many rows, of all sensors together.", example="1000"
    )
    sensors: Setting[int, int] = setting(
        whole(1), "How many sensors there are.", example="20", default=100
    )
    seed: Setting[int, int] = setting(
        whole(0), "The same seed gives the same values.", example="7", default=0
    )


@table
class Mqtt:
    """Messages of an MQTT broker."""

    broker: Setting[str, str] = setting(
        ADDRESS, "Where the broker listens.", example='"127.0.0.1:1883"'
    )
    topics: Setting[Iterable[str], tuple[str, ...]] = setting(
        TOPICS, "Filters of the topics to read.", example='["sensors/#"]'
    )
    schema: Schema = _schema()
    format: Setting[str, str] = setting(
        choice("json"), "How messages are written.", example='"json"', default="json"
    )
    username: Setting[str | None, str | None] = optional(
        TEXT, "Whom to log in as.", example='"holdfast"'
    )
    password_env: Setting[str | None, str | None] = optional(
        VARIABLE, "An environment variable with the password.", example='"MQTT_PASSWORD"'
    )


@table
class Edge:
    """Windows of an edge: the stream's process is its root. One row for each window, and key; with
    `time = "end"` they have the time at which they end."""

    schema: ClassVar = (
        Column("query", "string"),
        Column("start", "timestamp"),
        Column("end", "timestamp"),
        Column("key", "string"),
        Column("value", "double"),
        Column("answer", "string"),
        Column("complete", "boolean"),
        Column("missing", "bigint"),
        Column("lost", "bigint"),
        Column("replayed", "bigint"),
        Column("late", "bigint"),
        Column("refused", "bigint"),
        Column("failed", "string"),
    )

    path: Setting[str, str] = setting(
        TEXT, "The file of the edge, relative to the topology.", example='"edge.toml"'
    )


Source = Push | Files | Rate | Sensors | Mqtt | Edge

SOURCES: Final[Mapping[str, type[Source]]] = {
    "files": Files,
    "rate": Rate,
    "sensors": Sensors,
    "mqtt": Mqtt,
    "edge": Edge,
    "push": Push,
}


@table
class Stream:
    """A stream that comes from outside. Its log is written before anybody sees a row, and served
    at its address."""

    source: Setting[Source, Source] = setting(
        inline("source", SOURCES), "Where its rows come from.", example='"push"'
    )
    address: Setting[str, str] = setting(
        ADDRESS, "Where its log is served.", example='"127.0.0.1:7001"'
    )
    host: Setting[str | None, str | None] = optional(
        HOST,
        "On which machine it runs, for `holdfast run --only`.",
        example='"edge-1"',
        default="the host of its address",
    )
    time: Setting[str | None, str | None] = optional(
        COLUMN,
        "The column with the event time, a `timestamp` of its schema.",
        example='"measured_at"',
        default="rows are stamped when they arrive",
    )
    lateness: Setting[Interval, Span] = setting(
        interval("0s"),
        "With `time`: how far rows may be out of order.",
        example='"2s"',
        default=Span(0),
    )
    idle: Setting[Interval | float | None, Span | float | None] = optional(
        DELAY,
        "With `time`: after so long without rows the stream goes on as if one had come that is so "
        "old. Older ones are late then.",
        example='"30s"',
        default="`1m` for `mqtt`, else `forever`",
    )
    retain: Setting[Interval | None, Span | None] = retention()

    @property
    def silence(self) -> float:
        """After how many microseconds without rows the clock moves the stream."""
        if self.time is None:
            return math.inf
        if self.idle is not None:
            return float(self.idle)
        return IDLE if isinstance(self.source, Mqtt) else math.inf
