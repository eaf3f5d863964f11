"""The query of a programmable window: checks what only concerns it, then puts the steps together.

Called by `holdfast.spark.dataframe`, which has looked at `df` and its time column before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdfast.aggregates import Aggregate
from holdfast.errors import InvalidArgumentError
from holdfast.spark.columns import column_named, field_named
from holdfast.spark.keys import Keys
from holdfast.spark.measures import measure_of
from holdfast.spark.operator import OUTPUT
from holdfast.spark.partials import BLOBS, shard_column, shard_labels
from holdfast.spark.plan import check_bound
from holdfast.spark.policy_windows.operator import PolicyProcessor, answer_shard
from holdfast.spark.policy_windows.plan import TIME, PolicyPlan
from holdfast.spark.policy_windows.rows import pack
from holdfast.spark.results import COUNTS, late_folder, open_answers
from holdfast.spark.sessions import require_rocksdb
from holdfast.windows.approximation.methods import Method
from holdfast.windows.policies import Policy, check_policy

__all__ = ["policy_window"]


def policy_window(
    df: DataFrame,
    keys: Keys,
    time: str,
    policy: Policy,
    aggs: Sequence[Aggregate],
    *,
    late: str | None,
    approximate: tuple[Method, ...] = (),
    shards: int,
    name: str,
    idle: int | None,
) -> DataFrame:
    """A window for each key; each row enters that of its key, which then slides by the policy.

    The result has a row for each row of `df`: the key, the time, and what the window answers after
    it. Rows enter in the order of time, at equal times in an order of the values that are read, and
    on a stream when the watermark has reached them, so that the results do not depend on the order
    in which rows come, nor on batches. Rows without a time enter no window. A row at or before the
    watermark that was reached before it came is late: counted, and with `late` written to that
    folder. `idle`, in microseconds: after a gap longer than that a key's window starts anew, and
    what is kept of a key that stays silent is let go.

    A policy's predicates see the aggregates under their names (`w.total`, `w["sum(value)"]`), and
    the event time as `w.time`, an int of microseconds that compares with a timedelta, too. An
    aggregate of NULLs only is a NULL that is less than every value. They run in Python workers.

    A query that goes on from a checkpoint must have the same keys, aggregates and policy. Of the
    predicates of a policy only their names and plain parameters are compared: code that changes
    under one name goes unnoticed, and decides from then on.
    """
    check_policy(policy)
    schema = df.schema
    plan = PolicyPlan(
        keys=keys,
        time=time,
        time_type=field_named(schema, time, "time").dataType,
        policy=policy,
        aggregates=tuple(aggs),
        measures=tuple(measure_of(aggregate, schema) for aggregate in aggs),
        shards=shards,
        idle=_check_idle(idle),
        # Where all rows are there, none is late.
        late=late_folder(late) if late is not None and df.isStreaming else None,
        approximate=approximate,
    )
    _check_names(plan)
    check_bound(plan.approximate, plan.measures)
    # What the window cannot do is said here, before a query starts.
    plan.make_window()
    packed = _packed(df, plan)
    if df.isStreaming:
        require_rocksdb(df.sparkSession)
        answers = _streaming(packed, plan, name)
    else:
        answers = packed.groupBy("shard").applyInArrow(answer_shard(plan), plan.carried_schema)
    rest = plan.schema.names[len(keys.fields) :]
    return answers.select(*keys.from_carried(), *map(column_named, rest))


def _packed(df: DataFrame, plan: PolicyPlan) -> DataFrame:
    columns = [
        shard_column(plan.keys.columns(), shard_labels(plan.shards)).alias("s"),
        column_named(plan.time).alias("t"),
        *(column.alias(f"k{place}") for place, column in enumerate(plan.keys.to_carried())),
        *(column_named(source).alias(f"v{place}") for place, source in enumerate(plan.sources)),
    ]
    if plan.late is not None:
        columns.append(F.struct(*map(column_named, df.columns)).alias("r"))
    rows = df.where(column_named(plan.time).isNotNull()).select(*columns)
    return rows.mapInArrow(partial(pack, plan), BLOBS)


def _streaming(packed: DataFrame, plan: PolicyPlan, name: str) -> DataFrame:
    answered = packed.groupBy("shard").transformWithState(
        statefulProcessor=PolicyProcessor(plan),
        outputStructType=OUTPUT,
        outputMode="Append",
        timeMode="eventTime",
    )
    counted = answered.observe(name, *(F.sum(count).alias(count) for count in COUNTS))
    return counted.mapInArrow(open_answers, plan.carried_schema)


def _check_names(plan: PolicyPlan) -> None:
    seen: set[str] = set()
    for name in plan.schema.names:
        if name.lower() in seen:
            raise InvalidArgumentError(
                f"aggs: the result would have two columns called {name}: keys, {plan.time} and "
                "aggregates are all in it; give one another name with alias('...')"
            )
        seen.add(name.lower())
    if TIME in [aggregate.name for aggregate in plan.aggregates]:
        raise InvalidArgumentError(
            f"aggs: {TIME!r} is what a policy calls the event time; give the aggregate another "
            "name with alias('...')"
        )


def _check_idle(idle: int | None) -> int | None:
    if idle is not None and idle < 1:
        raise InvalidArgumentError(
            f"idle: {idle} microseconds is no time; give a span such as '1h', or None for never"
        )
    return idle
