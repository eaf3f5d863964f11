"""`holdfast.window`: sliding windows on a DataFrame, streaming or not.

Everything is checked here, before a query starts; then one of three plans is built. Tumbling
windows of what Spark aggregates alike are left to Spark (`native`). All others reduce rows to panes
before the shuffle (`partials`) and go through the stateful operator (`operator`), or without state
through `batch` if the DataFrame does not stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from reprlib import repr as shorten
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from holdfast.aggregates import Aggregate
from holdfast.errors import InvalidArgumentError
from holdfast.intervals import parse_interval
from holdfast.spark.batch import answer_shard, native_aggregation, native_window
from holdfast.spark.columns import column_named, field_named
from holdfast.spark.keys import Keys
from holdfast.spark.measures import measure_of
from holdfast.spark.operator import OUTPUT, ShardProcessor
from holdfast.spark.partials import BLOBS, pack, shard_column, shard_labels
from holdfast.spark.plan import Plan, check_bound
from holdfast.spark.policy_windows import policy_window
from holdfast.spark.results import COUNTS, late_folder, open_answers
from holdfast.spark.sessions import require_rocksdb
from holdfast.time_windows import Interval, TimeWindow, sliding
from holdfast.windows import Policy
from holdfast.windows.approximation.methods import Method, check_methods
from holdfast.windows.shard import Span

__all__ = ["window"]

WATERMARK = "spark.watermarkDelayMs"
"""Where Spark notes the watermark of a column."""


def window(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    time: str,
    aggs: Sequence[Aggregate],
    size: Interval | None = None,
    slide: Interval | None = None,
    offset: Interval | None = None,
    windows: Sequence[TimeWindow] | None = None,
    policy: Policy | None = None,
    emit: str = "final",
    empty: Interval | None = None,
    idle: Interval | None = None,
    late: str | None = None,
    approximate: Method | Sequence[Method] | None = None,
    shards: int | None = None,
    name: str = "holdfast",
) -> DataFrame:
    """Windows of `size` every `slide` over each key: a row for each key and window that has rows.

    `df` has a timestamp column `time`, with a watermark if it streams. `windows` takes several
    windows in place of `size`, `slide` and `offset`; the result then has their names. `policy` puts
    a programmable window on each key instead, with a result for each row; a key without rows for
    longer than `idle` starts anew.

    `emit="early"` also shows windows that have not ended, with a column `final` that says so.
    `empty`: for how long after its last row a key still gets windows without rows. `late`: a folder
    for rows that come when their pane is closed; without it they are only counted. `approximate`:
    `holdfast.max_error`, `max_leaves` and others, or a list of them, for windows that need not be
    exact; with a bound the result has a column `within_bound`. `shards`: into
    how many parts keys are split, by default as many as there are shuffle partitions. `name` is
    what metrics call this window.
    """
    schema = df.schema
    moment = _time_field(schema, time)
    if df.isStreaming:
        _check_watermark(schema, moment)
    keys = Keys.of(schema, key)
    _check_aggregates(aggs)
    folder = None if late is None else late_folder(late)
    count = _count_shards(df, shards)
    if policy is not None:
        given = {"size": size, "slide": slide, "offset": offset, "windows": windows, "empty": empty}
        _check_policy_alone(given, emit)
        longest = None if idle is None else _check_span("idle", idle)
        return policy_window(
            df,
            keys,
            time,
            policy,
            aggs,
            late=folder,
            approximate=() if approximate is None else check_methods(approximate),
            shards=count,
            name=name,
            idle=longest,
        )
    if idle is not None:
        raise InvalidArgumentError("idle: goes with policy; windows in time let go by themselves")
    some = _time_windows(size, slide, offset, windows)
    early = _check_emit(emit)
    plan = Plan(
        keys=keys,
        time_type=moment.dataType,
        spans=tuple(Span(each.size, each.slide, each.offset + each.size) for each in some),
        names=None if windows is None else tuple(each.name for each in some),
        measures=tuple(measure_of(aggregate, schema) for aggregate in aggs),
        shards=count,
        early=early,
        linger=None if empty is None else _check_span("empty", empty),
        late=folder,
        approximate=() if approximate is None else check_methods(approximate),
    )
    _check_names(plan)
    check_bound(plan.approximate, plan.measures)
    # What the window cannot do is said here, before a query starts.
    plan.make_window()
    own = plan.names or plan.linger is not None or plan.late or early or plan.approximate
    native = all(native_aggregation(aggregate, schema) is not None for aggregate in aggs)
    if not own and some[0].tumbles and native:
        return native_window(df, keys, time, some[0].size, some[0].offset, aggs, plan.meaning)
    packed = _packed(df, plan, time)
    if df.isStreaming:
        require_rocksdb(df.sparkSession)
        answers = _streaming(packed, plan, name)
    else:
        answers = packed.groupBy("shard").applyInArrow(answer_shard(plan), plan.carried_schema)
    rest = plan.schema.names[len(keys.fields) :]
    return answers.select(*keys.from_carried(), *map(column_named, rest))


def _packed(df: DataFrame, plan: Plan, time: str) -> DataFrame:
    labels = shard_labels(plan.shards)
    columns = [
        shard_column(plan.keys.columns(), labels).alias("s"),
        column_named(time).alias("t"),
        *(column.alias(f"k{i}") for i, column in enumerate(plan.keys.to_carried())),
        *(column_named(source).alias(f"v{i}") for i, source in enumerate(plan.sources)),
    ]
    if plan.late is not None:
        columns.append(F.struct(*map(column_named, df.columns)).alias("r"))
    rows = df.where(column_named(time).isNotNull()).select(*columns)
    return rows.mapInArrow(partial(pack, plan), BLOBS)


def _streaming(packed: DataFrame, plan: Plan, name: str) -> DataFrame:
    answered = packed.groupBy("shard").transformWithState(
        statefulProcessor=ShardProcessor(plan),
        outputStructType=OUTPUT,
        outputMode="Update" if plan.early else "Append",
        timeMode="eventTime",
    )
    counted = answered.observe(name, *(F.sum(count).alias(count) for count in COUNTS))
    return counted.mapInArrow(open_answers, plan.carried_schema)


# Arguments


def _time_field(schema: StructType, time: str) -> StructField:
    field = field_named(schema, time, "time")
    if not isinstance(field.dataType, TimestampType | TimestampNTZType):
        raise InvalidArgumentError(
            f"time: {time} is {field.dataType.simpleString()}, not timestamp; convert it first, "
            f"for instance df.withColumn({time!r}, F.col({time!r}).cast('timestamp'))"
        )
    return field


def _check_watermark(schema: StructType, moment: StructField) -> None:
    if WATERMARK in moment.metadata:
        return
    others = [field.name for field in schema.fields if WATERMARK in field.metadata]
    has = f"the watermark is on {others[0]}" if others else "df has no watermark"
    raise InvalidArgumentError(
        f"df: {has}, so no window over {moment.name} would ever end; say how late rows may come: "
        f"df.withWatermark({moment.name!r}, '10 seconds')"
    )


def _time_windows(
    size: Interval | None,
    slide: Interval | None,
    offset: Interval | None,
    windows: Sequence[TimeWindow] | None,
) -> list[TimeWindow]:
    if windows is None:
        if size is None:
            raise InvalidArgumentError(
                "size: is missing; give a span such as '1h', or windows=[...]"
            )
        return [
            sliding(
                size, size if slide is None else slide, offset="0s" if offset is None else offset
            )
        ]
    if not (size is None and slide is None and offset is None):
        raise InvalidArgumentError(
            "windows: comes in place of size, slide and offset; give these to sliding(...) and "
            "tumbling(...)"
        )
    some = list(windows) if isinstance(windows, Sequence) else [windows]
    for each in some:
        if not isinstance(each, TimeWindow):
            raise InvalidArgumentError(
                f"windows: has {shorten(each)}; give holdfast.sliding(...) or "
                "holdfast.tumbling(...)"
            )
    if not some:
        raise InvalidArgumentError("windows: is empty; give at least one")
    names = [each.name for each in some]
    for each in some:
        if names.count(each.name) > 1:
            raise InvalidArgumentError(
                f"windows: two are called {each.name!r}; give one another name with name=..."
            )
    return some


def _check_aggregates(aggs: Any) -> None:
    if isinstance(aggs, Aggregate) or not isinstance(aggs, Sequence) or not aggs:
        raise InvalidArgumentError(
            f"aggs: is {shorten(aggs)}; give a list, as in [agg.count(), agg.mean('value')]"
        )
    for aggregate in aggs:
        if not isinstance(aggregate, Aggregate):
            raise InvalidArgumentError(
                f"aggs: has {shorten(aggregate)}; give aggregates of holdfast.aggregates, as in "
                "agg.mean('value')"
            )


def _check_names(plan: Plan) -> None:
    seen: set[str] = set()
    for name in plan.schema.names:
        if name.lower() in seen:
            raise InvalidArgumentError(
                f"aggs: the result would have two columns called {name}; give one another "
                "name with alias('...')"
            )
        seen.add(name.lower())


def _check_emit(emit: str) -> bool:
    if emit not in ("final", "early"):
        raise InvalidArgumentError(f"emit: is {shorten(emit)}; give 'final' or 'early'")
    return emit == "early"


def _check_span(what: str, text: Interval) -> int:
    span = parse_interval(what, text)
    if span < 0:
        raise InvalidArgumentError(f"{what}: {text} is below zero; give a span such as '1h'")
    return span


def _check_policy_alone(given: Mapping[str, object], emit: str) -> None:
    others = [argument for argument, value in given.items() if value is not None]
    if emit != "final":
        others.append("emit")
    if others:
        raise InvalidArgumentError(
            f"{others[0]}: does not go with policy, which says what leaves a window; drop either"
        )


def _count_shards(df: DataFrame, shards: int | None) -> int:
    if shards is not None:
        return len(shard_labels(shards))
    return int(df.sparkSession.conf.get("spark.sql.shuffle.partitions"))  # type: ignore[arg-type]
