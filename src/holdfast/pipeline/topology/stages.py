"""Stages, their replicas, and the steps of a stage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.aggregates import Aggregate
from holdfast.config.durations import Span
from holdfast.config.fields import ADDRESS, HOST, NAMES, Interval, interval, whole
from holdfast.config.settings import (
    InList,
    Kind,
    Refused,
    Setting,
    Steps,
    is_not,
    optional,
    setting,
    table,
)
from holdfast.pipeline.topology import policies as gates
from holdfast.pipeline.topology.columns import Column
from holdfast.pipeline.topology.fields import (
    AGGREGATES,
    COLUMNS,
    DELAY,
    EXPRESSION,
    EXPRESSIONS,
    FUNCTION,
    QUERY,
    SCHEMA,
    retention,
)


@table
class Replica:
    """One replica of a stage. In a file its address alone will do."""

    address: Setting[str, str] = setting(
        ADDRESS, "Where its log is served.", example='"10.0.0.5:7101"'
    )
    host: Setting[str | None, str | None] = optional(
        HOST,
        "On which machine it runs, for `holdfast run --only`.",
        example='"edge-1"',
        default="the host of its address",
    )


@table
class Where:
    """Leaves rows out."""

    where: Setting[str, str] = setting(
        EXPRESSION, "Only rows for which this is true go on.", example='"value IS NOT NULL"'
    )


@table
class Select:
    """Calculates new columns of a row."""

    select: Setting[Iterable[str], tuple[str, ...]] = setting(
        EXPRESSIONS,
        "The columns to go on with.",
        example='["sensor", "value * 1.8 + 32 AS value"]',
    )


@table
class Sql:
    """A SELECT over the rows, each by itself."""

    sql: Setting[str, str] = setting(
        QUERY,
        "What to select; the rows are called `input`.",
        example='"SELECT sensor, abs(value) AS value FROM input"',
    )


@table
class Function:
    """A Python function over pandas frames."""

    function: Setting[str, str] = setting(
        FUNCTION,
        "Takes a frame and answers a frame, the same for the same rows.",
        example='"mymodule:clean"',
    )
    schema: Setting[Mapping[str, str] | Iterable[tuple[str, str]], tuple[Column, ...]] = setting(
        SCHEMA,
        "The columns of what it answers.",
        example='{ sensor = "string", value = "double" }',
    )


@table
class Join:
    """Pairs of rows of two inputs with equal keys. First step of a stage with two inputs."""

    keys: Setting[Iterable[str], tuple[str, ...]] = setting(
        COLUMNS, "Columns that both inputs have.", example='["sensor"]'
    )
    within: Setting[Interval, Span] = setting(
        interval(), "How far apart in event time the two rows may be.", example='"10s"'
    )


@table
class Window:
    """A window in event time that slides. At most one in a stage."""

    size: Setting[Interval, Span] = setting(
        interval(), "How much time a window covers.", example='"1m"'
    )
    aggregates: Setting[Iterable[str | Aggregate], tuple[Aggregate, ...]] = setting(
        AGGREGATES,
        "What to calculate, each as `function(column) AS name`; the name may be left out.",
        example='["count() AS n", "mean(value) AS mean"]',
    )
    slide: Setting[Interval | None, Span | None] = optional(
        interval(),
        "How much time lies between the starts of two windows, at most the size.",
        example='"10s"',
        default="the size",
    )
    keys: Setting[Iterable[str], tuple[str, ...]] = setting(
        COLUMNS,
        "Each combination of their values has windows of its own.",
        example='["sensor"]',
        default=(),
    )


Step = Where | Select | Sql | Function | Join | Window

STEPS: Final = Steps(
    flat={"where": Where, "select": Select, "sql": Sql, "function": Function},
    nested={"join": Join, "window": Window},
)


def _read_replicas(value: Any) -> tuple[Replica, ...]:
    if not isinstance(value, list | tuple):
        raise is_not(value, "a list of addresses")
    if not value:
        raise Refused.because("is empty")
    return tuple(Replica(each) if isinstance(each, str) else each for each in value)


def _write_replica(replica: Replica) -> Any:
    if replica.host is None:
        return replica.address
    return {"address": replica.address, "host": replica.host}


def _read_steps(value: Any) -> tuple[Step, ...]:
    if not isinstance(value, list | tuple):
        raise is_not(value, "a list of steps")
    return tuple(value)


@table
class Stage:
    """A piece of the pipeline that Spark runs as one query, on each of its replicas. It publishes
    one stream, which has its name."""

    inputs: Setting[Iterable[str], tuple[str, ...]] = setting(
        NAMES,
        "The streams and stages that it reads. Several without a `join` are a union, and have the "
        "same columns.",
        example='["readings"]',
    )
    replicas: Setting[Iterable[str | Replica], tuple[Replica, ...]] = setting(
        Kind[Iterable[str | Replica], tuple[Replica, ...]](
            "a list of addresses",
            _read_replicas,
            lambda kept: [_write_replica(replica) for replica in kept],
            InList(Replica),
        ),
        "One address for each replica, or a table with its address and host.",
        example='["127.0.0.1:7101", "127.0.0.1:7102"]',
    )
    policy: Setting[str, str] = gates.policy(
        "How its gate makes one input of what the replicas before it publish.", *gates.POLICIES
    )
    max_delay: Setting[Interval | float, Span | float] = setting(
        DELAY,
        "With `switch`: how much later than usual an answer may come, before a tentative one "
        "is given. At least two buckets, and heartbeat times (missed + 2).",
        example='"4s"',
        default=math.inf,
    )
    faults: Setting[int, int] = gates.faults()
    every: Setting[int, int] = gates.every()
    barrier: Setting[Interval, Span] = gates.barrier()
    proofs: Setting[int, int] = gates.proofs()
    room: Setting[int, int] = gates.room()
    rest: Setting[str, str] = gates.rest()
    routing: Setting[str, str] = gates.routing()
    guarantee: Setting[str, str] = gates.guarantee()
    shards: Setting[int, int] = setting(
        whole(1), "Into how many parts its keys are divided.", example="8", default=2
    )
    retain: Setting[Interval | None, Span | None] = retention()
    heartbeat: Setting[Interval, Span] = setting(
        interval("1ms"),
        "How often it asks those before it whether they are there.",
        example='"250ms"',
        default=Span(100_000),
    )
    missed: Setting[int, int] = setting(
        whole(1), "After so many unanswered ones a replica has failed.", example="5", default=3
    )
    steps: Setting[Iterable[Step], tuple[Step, ...]] = setting(
        Kind[Iterable[Step], tuple[Step, ...]]("a list of steps", _read_steps, shape=STEPS),
        "What it does with each row, one after the other.",
        example='[{ where = "value IS NOT NULL" }]',
        default=(),
    )

    @property
    def is_shared(self) -> bool:
        """Whether its replicas share its work."""
        return self.policy == gates.SHARE

    @property
    def join(self) -> Join | None:
        """Its join, if it has one."""
        return next((step for step in self.steps if isinstance(step, Join)), None)

    @property
    def window(self) -> Window | None:
        """Its window, if it has one."""
        return next((step for step in self.steps if isinstance(step, Window)), None)

    @property
    def span(self) -> Span:
        """How far back its state depends on its input."""
        join, window = self.join, self.window
        return Span((join.within if join else 0) + (window.size if window else 0))
