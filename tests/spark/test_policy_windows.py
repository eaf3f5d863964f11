"""Programmable windows on Spark: against recalculation, without a JVM, and in real queries."""

import glob
import math
import os
from collections import Counter, defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.tws_tester import TwsTester

from holdfast import aggregates as agg
from holdfast.errors import InvalidArgumentError, InvalidValueError
from holdfast.spark.keys import Keys
from holdfast.spark.measures import measure_of
from holdfast.spark.operator import StateMismatchError
from holdfast.spark.policy_windows import policy_window
from holdfast.spark.policy_windows.operator import PolicyProcessor, answer_shard
from holdfast.spark.policy_windows.plan import PolicyPlan
from holdfast.spark.policy_windows.rows import pack
from holdfast.spark.results import open_answers
from holdfast.windows import Monoid, policies

SECOND = 1_000_000
SCHEMA = t.StructType(
    [
        t.StructField("k", t.StringType()),
        t.StructField("ts", t.TimestampType()),
        t.StructField("v", t.LongType()),
        t.StructField("w", t.StringType()),
        t.StructField("x", t.DoubleType()),
        t.StructField("d", t.DecimalType(10, 2)),
        t.StructField("day", t.DateType()),
    ]
)
AGGS = [
    agg.count().alias("n"),
    agg.sum("v").alias("total"),
    agg.max("v").alias("top"),
    agg.range("v").alias("spread"),
    agg.first("w").alias("opens"),
    agg.last("w").alias("closes"),
    agg.count("v"),
]


def plan_of(policy, aggs=AGGS, *, idle=None, late=None, key="k", shards=1):
    return PolicyPlan(
        keys=Keys.of(SCHEMA, key),
        time="ts",
        time_type=t.TimestampType(),
        policy=policy,
        aggregates=tuple(aggs),
        measures=tuple(measure_of(aggregate, SCHEMA) for aggregate in aggs),
        shards=shards,
        idle=idle,
        late=late,
    )


def blobs_of(plan, rows):
    """Rows, dicts with times in microseconds, as the first step of the query packs them."""
    if not rows:
        return []
    arrow = to_arrow_schema(SCHEMA, timezone="UTC")
    columns = {
        field.name: pa.array([row.get(field.name) for row in rows], field.type) for field in arrow
    }
    batch = {"s": pa.array(np.zeros(len(rows), np.int32)), "t": columns["ts"]}
    batch |= {f"k{i}": columns[name] for i, name in enumerate(plan.keys.names)}
    batch |= {f"v{i}": columns[name] for i, name in enumerate(plan.sources)}
    if plan.late is not None:
        batch["r"] = pa.StructArray.from_arrays(list(columns.values()), fields=list(arrow))
    packed = pack(plan, iter([pa.record_batch(batch)]))
    return [blob for out in packed for blob in out["blob"].to_pylist()]


def opened(blobs):
    batch = pa.record_batch({"blob": pa.array(blobs, pa.binary())})
    return [row for out in open_answers(iter([batch])) for row in out.to_pylist()]


class Stream:
    """The stateful operator under Spark's tester; each batch sees the watermark of those before."""

    def __init__(self, plan):
        self.plan = plan
        self.tester = TwsTester(
            PolicyProcessor(plan), timeMode="eventTime", eventTimeExtractor=lambda row: 2**60
        )
        self.answers, self.counts, self.watermark = [], Counter(), 0

    def batch(self, rows):
        inputs = [Row(shard=0, blob=blob) for blob in blobs_of(self.plan, rows)]
        if inputs:
            self._take(self.tester.test(0, inputs))

    def advance(self, watermark):
        """To microseconds that are whole milliseconds."""
        if watermark // 1000 > self.watermark:
            self.watermark = watermark // 1000
            self._take(self.tester.setWatermark(self.watermark))

    def _take(self, rows):
        self.answers += opened([row.blob for row in rows])
        for row in rows:
            self.counts["late"] += row.late
            self.counts["rows"] += row.rows
            self.counts["answers"] += row.answers
            self.level = row


def at_once(plan, rows):
    """The plan over a DataFrame that does not stream."""
    batch = pa.record_batch({"blob": pa.array(blobs_of(plan, rows), pa.binary())})
    return [row for out in answer_shard(plan)((0,), iter([batch])) for row in out.to_pylist()]


# Recalculation, by definition: `keep` cuts the rows of a window, newest last


def kept_bound(window):
    while len(window) > 1 and sum(row["v"] or 0 for row in window) > 20:
        window = window[1:]
    return window


def kept_peak(window):
    ranked = [(row["v"] is not None, row["v"] or 0) for row in window]
    return window[max(range(len(window)), key=lambda at: (ranked[at], at)) :]


def kept_own(window):
    while len(window) > 1:
        values = [row["v"] for row in window if row["v"] is not None]
        if len(window) <= 4 and (not values or max(values) - min(values) <= 5):
            break
        window = window[1:]
    return window


CASES = {
    "last": (policies.last(3), lambda window: window[-3:]),
    "bound": (policies.value_bound(20, lambda w: w.total), kept_bound),
    "peak": (policies.before_max(lambda w: w.top), kept_peak),
    "span": (
        policies.time_span(timedelta(seconds=10)),
        lambda window: [row for row in window if window[-1]["ts"] - row["ts"] < 10 * SECOND],
    ),
    "span in microseconds": (
        policies.time_span(10 * SECOND),
        lambda window: [row for row in window if window[-1]["ts"] - row["ts"] < 10 * SECOND],
    ),
    "own": (
        policies.Policy(window_invariant=lambda w: w.size <= 4 and w.value["spread"] <= 5),
        kept_own,
    ),
}


def in_order(rows):
    return sorted(
        rows,
        key=lambda row: (
            row["ts"],
            row["v"] is not None,
            row["v"] or 0,
            row["w"] is not None,
            row["w"] or "",
        ),
    )


def picked(rows, first):
    """The value of w at the first or last time, as `agg.first` and `agg.last` define it."""
    time = (min if first else max)(row["ts"] for row in rows)
    values = [row["w"] for row in rows if row["ts"] == time and row["w"] is not None]
    return (min if first else max)(values, default=None)


def recalculated(rows, keep, idle=None):
    """What AGGS answer: for each key a list of (time, answers)."""
    windows, answers = defaultdict(list), defaultdict(list)
    for row in in_order(rows):
        window = windows[row["k"]]
        if window and idle is not None and row["ts"] - window[-1]["ts"] > idle:
            window.clear()
        window[:] = keep([*window, row])
        values = [each["v"] for each in window if each["v"] is not None]
        answers[row["k"]].append(
            {
                "k": row["k"],
                "ts": datetime.fromtimestamp(0, UTC) + timedelta(microseconds=row["ts"]),
                "n": len(window),
                "total": sum(values) if values else None,
                "top": max(values, default=None),
                "spread": max(values) - min(values) if values else None,
                "opens": picked(window, first=True),
                "closes": picked(window, first=False),
                "count(v)": len(values),
            }
        )
    return answers


def by_key(answers):
    keyed = defaultdict(list)
    for answer in answers:
        keyed[answer["k"]].append(answer)
    return keyed


rows = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", None]),
        "ts": st.integers(1, 60).map(lambda second: second * SECOND // 2),
        "v": st.none() | st.integers(0, 12),
        "w": st.none() | st.sampled_from("xyz"),
    }
)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.lists(rows, max_size=8), max_size=8),
    st.sampled_from(sorted(CASES)),
    st.integers(0, 15),
    st.sampled_from([None, 5 * SECOND]),
)
def test_a_stream_is_as_recalculation_of_what_came_in_time(batches, case, delay, idle):
    policy, keep = CASES[case]
    stream = Stream(plan_of(policy, idle=idle))
    taken, late, newest = [], 0, 0
    for batch in batches:
        in_time = [row for row in batch if row["ts"] > stream.watermark * 1000]
        late += len(batch) - len(in_time)
        taken += in_time
        stream.batch(batch)
        newest = max([newest, *(row["ts"] for row in batch)])
        stream.advance(newest - delay * SECOND)
    stream.advance(1000 * SECOND)
    assert by_key(stream.answers) == recalculated(taken, keep, idle)
    assert stream.counts == Counter(rows=len(taken), late=late, answers=len(taken))


@settings(max_examples=60, deadline=None)
@given(st.lists(rows, min_size=1, max_size=30), st.sampled_from(sorted(CASES)), st.randoms())
def test_the_order_of_rows_does_not_matter_and_all_are_taken_where_nothing_streams(
    rows, case, random
):
    policy, keep = CASES[case]
    plan = plan_of(policy)
    expected = recalculated(rows, keep)
    shuffled = random.sample(rows, len(rows))
    assert by_key(at_once(plan, rows)) == by_key(at_once(plan, shuffled)) == expected


def row(second, v=None, k="a", **more):
    return {"k": k, "ts": int(second * SECOND), "v": v, "w": None, **more}


def test_rows_wait_for_the_watermark_and_then_come_at_once():
    stream = Stream(plan_of(policies.last(2)))
    stream.batch([row(5, 5), row(2, 2)])
    assert stream.answers == []
    assert stream.level.open_panes == 2
    stream.advance(2 * SECOND)
    assert [answer["total"] for answer in stream.answers] == [2]
    stream.batch([row(3, 3)])
    stream.advance(10 * SECOND)
    assert [answer["total"] for answer in stream.answers] == [2, 5, 8]
    assert (stream.level.open_panes, stream.level.panes, stream.level.keys) == (0, 2, 1)


def test_late_rows_are_counted_and_written_whole(tmp_path):
    stream = Stream(plan_of(policies.last(2), late=str(tmp_path / "late")))
    stream.batch([row(5, 5)])
    stream.advance(5 * SECOND)
    stream.batch([row(5, 1, w="tie"), row(4, 2, x=1.5), row(6, 6)])
    stream.advance(9 * SECOND)
    assert [answer["total"] for answer in stream.answers] == [5, 11]
    assert stream.counts["late"] == 2
    (file,) = glob.glob(f"{tmp_path}/late/*.parquet")
    written = pq.read_table(file)
    assert written.column_names == SCHEMA.names
    assert written.select(["v", "w", "x"]).to_pylist() == [
        {"v": 1, "w": "tie", "x": None},
        {"v": 2, "w": None, "x": 1.5},
    ]


def test_only_due_keys_are_read_and_only_few_pairs():
    stream = Stream(plan_of(policies.last(100), [agg.count()]))
    for start in range(0, 300, 50):
        stream.batch([row(start + at, k=k) for at in range(50) for k in "abcdefgh"])
        stream.advance((start + 50) * SECOND)
    stream.batch([row(500, k="a")])
    stream.advance(600 * SECOND)
    assert stream.answers[-1]["count(1)"] == 100
    assert stream.level.pairs_read + stream.level.pairs_written <= 20
    assert stream.level.keys == 8


def test_idle_keys_are_forgotten_without_rows():
    stream = Stream(plan_of(policies.last(100), [agg.count()], idle=10 * SECOND))
    stream.batch([row(at, k=k) for at in range(1, 9) for k in "abc"])
    stream.advance(9 * SECOND)
    assert (stream.level.keys, stream.level.panes) == (3, 24)
    stream.advance(50 * SECOND)
    assert (stream.level.keys, stream.level.panes) == (0, 0)
    assert stream.tester.peekMapState("pairs", 0) == {}


@pytest.mark.parametrize(
    "other",
    [
        plan_of(policies.last(3)),
        plan_of(policies.value_bound(3, lambda w: w.total)),
        plan_of(policies.last(2), [agg.count()]),
        plan_of(policies.last(2), idle=SECOND),
        plan_of(policies.last(2), key="w"),
    ],
    ids=["policy", "kind of policy", "aggregates", "idle", "key"],
)
def test_a_checkpoint_of_another_window_is_refused(other):
    stream = Stream(plan_of(policies.last(2)))
    stream.batch([row(1, 1)])
    stream.tester.processor.plan = other
    with pytest.raises(StateMismatchError, match=r"windows by last\(2\).*checkpointLocation"):
        stream.batch([row(2, 2)])


def test_signatures_tell_plain_parameters_and_names_of_predicates():
    def bound(limit, read):
        return plan_of(policies.value_bound(limit, read)).signature

    assert bound(1, lambda w: w.total) == bound(1, lambda w: w.total)
    assert bound(1, lambda w: w.total) != bound(2, lambda w: w.total)
    assert "value_bound(limit=1, value=" in bound(1, lambda w: w.total)
    span = plan_of(policies.time_span(timedelta(hours=1))).signature
    assert "time_span(length=datetime.timedelta(seconds=3600)" in span


def test_sums_stay_exact_and_what_does_not_fit_is_refused():
    big = 2**62
    plan = plan_of(policies.last(3), [agg.sum("v"), agg.mean("v")])
    answers = at_once(plan, [row(1, big), row(2, -big + 1), row(3, 1)])
    assert [answer["sum(v)"] for answer in answers] == [big, 1, 2]
    with pytest.raises(InvalidValueError, match="does not fit into bigint"):
        at_once(plan, [row(1, big), row(2, big), row(3, big)])


def test_floats_decimals_and_dates_are_as_in_spark():
    nan, inf = math.nan, math.inf
    aggs = [agg.min("x"), agg.max("x"), agg.range("x"), agg.variance("x"), agg.stddev("x")]
    answers = at_once(
        plan_of(policies.last(2), aggs),
        [row(1, x=1.0), row(2, x=nan), row(3, x=-0.0), row(4), row(5, x=inf), row(6, x=3.0)],
    )
    minima = [answer["min(x)"] for answer in answers]
    assert minima == [1.0, 1.0, 0.0, 0.0, inf, 3.0]
    assert str(minima[2]) == "0.0"
    assert [str(answer["max(x)"]) for answer in answers] == [
        "1.0",
        "nan",
        "nan",
        "0.0",
        "inf",
        "inf",
    ]
    assert str(answers[1]["range(x)"]) == "nan"
    assert answers[0]["variance(x)"] is answers[3]["stddev(x)"] is None
    assert str(answers[5]["variance(x)"]) == "nan"

    aggs = [agg.sum("d"), agg.mean("d"), agg.max("d"), agg.range("day"), agg.max("day")]
    answers = at_once(
        plan_of(policies.value_bound(Decimal("2.50"), lambda w: w["sum(d)"]), aggs),
        [
            row(1, d=Decimal("1.00"), day=date(2024, 2, 28)),
            row(2, d=Decimal("0.01"), day=date(2024, 3, 1)),
            row(3, d=Decimal("0.01"), day=None),
            row(4, d=Decimal("2.49"), day=date(2024, 3, 9)),
        ],
    )
    assert [answer["sum(d)"] for answer in answers] == [
        Decimal("1.00"), Decimal("1.01"), Decimal("1.02"), Decimal("2.50"),
    ]  # fmt: skip
    assert answers[3]["avg(d)"] == Decimal("1.250000")
    assert answers[2]["range(day)"] == timedelta(days=2)
    assert answers[3]["max(day)"] == date(2024, 3, 9)


def test_policies_see_dates_as_dates_and_sketches_answer():
    since = policies.value_bound(date(2024, 3, 1), lambda w: w["max(day)"])
    aggs = [agg.max("day"), agg.approx_distinct("w"), agg.approx_quantiles("x", [0.0, 1.0])]
    answers = at_once(
        plan_of(since, aggs),
        [
            row(1, day=date(2024, 2, 28), w="a", x=1.0),
            row(2, day=None, w="b", x=None),
            row(3, day=date(2024, 3, 1), w=None, x=math.inf),
            row(4, day=date(2024, 3, 2), w=None, x=None),
        ],
    )
    assert [answer["approx_count_distinct(w)"] for answer in answers] == [1, 2, 2, 0]
    quantiles = [answer["approx_quantiles(x)"] for answer in answers]
    assert quantiles == [[1.0, 1.0], [1.0, 1.0], [1.0, math.inf], None]


def test_windows_may_end_up_empty():
    policy = policies.value_bound(3, lambda w: w.total, keep_newest=False)
    (answer,) = at_once(plan_of(policy), [row(1, 9, w="x")])
    assert (answer["n"], answer["count(v)"]) == (0, 0)
    assert answer["total"] is answer["opens"] is answer["closes"] is None


# Real queries

START = datetime(2024, 5, 1, tzinfo=UTC)
longest = Monoid(
    "longest",
    identity="",
    lift=str,
    combine=lambda older, newer: newer if len(newer) > len(older) else older,
    lower=str,
)


def frame_rows(count=400):
    """Rows a bit out of order, with NULLs in keys and values."""
    made = []
    for at in range(count):
        second = at + (at * 7) % 5
        made.append(
            (
                (None, "a", "b", "c")[at % 4],
                START + timedelta(seconds=second),
                None if at % 11 == 0 else (at * 37) % 17,
                "w" * (at % 6),
            )
        )
    return made


def window_of(df, policy, aggs, **more):
    options = {"late": None, "shards": 2, "name": "policy", "idle": None, **more}
    return policy_window(df, Keys.of(df.schema, "k"), "ts", policy, aggs, **options)


DDL = "k string, ts timestamp, v long, w string"
QUERY_AGGS = [
    agg.count().alias("n"),
    agg.sum("v").alias("total"),
    agg.last("w").alias("closes"),
    agg.custom(longest, "w", "string").alias("longest"),
]


def test_a_stream_and_a_static_dataframe_agree(spark, tmp_path):
    made = frame_rows()
    policy = policies.value_bound(40, lambda w: w.total)
    static = spark.createDataFrame(made, DDL)
    expected = window_of(static, policy, QUERY_AGGS)
    assert expected.columns == ["k", "ts", "n", "total", "closes", "longest"]
    rows = expected.collect()
    assert len(rows) == len(made)
    assert all(row.total is None or row.total <= 40 for row in rows)

    end = [("end", START + timedelta(days=1), 0, "")]
    early = [("late", START, 1, "x")]
    parts = [made[:150], made[150:280], made[280:], end, early + end]
    source, late = tmp_path / "source", tmp_path / "late"
    source.mkdir()

    def run():
        stream = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(source))
        df = stream.withWatermark("ts", "10 seconds")
        answers = window_of(df, policy, QUERY_AGGS, late=str(late))
        query = (
            answers.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    # The query is stopped and started again between the parts.
    for number, part in enumerate(parts):
        columns = [list(column) for column in zip(*part, strict=True)]
        table = pa.table(columns, names=["k", "ts", "v", "w"])
        pq.write_table(table, source / f"{number}.parquet")
        # Spark takes files in the order of their times.
        os.utime(source / f"{number}.parquet", (number, number))
        if number in (1, 4):
            run()
    out = spark.read.schema(expected.schema).parquet(str(tmp_path / "out")).collect()
    assert Counter(row for row in out if row.k != "end") == Counter(rows)
    (refused,) = spark.read.parquet(str(late)).collect()
    assert (refused.k, refused.ts.astimezone(UTC), refused.v, refused.w) == early[0]


def test_names_that_clash_are_refused(spark):
    df = spark.createDataFrame(frame_rows(4), DDL)
    with pytest.raises(InvalidArgumentError, match="aggs: 'time' is what a policy calls"):
        window_of(df, policies.last(1), [agg.sum("v").alias("time")])
    with pytest.raises(InvalidArgumentError, match="two columns called ts"):
        window_of(df, policies.last(1), [agg.sum("v").alias("ts")])
    with pytest.raises(InvalidArgumentError, match="idle: 0 microseconds"):
        window_of(df, policies.last(1), [agg.sum("v")], idle=0)
    with pytest.raises(InvalidArgumentError, match="policy: is 3"):
        window_of(df, 3, [agg.sum("v")])
