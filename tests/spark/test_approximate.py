"""Approximate windows on Spark: the same call, fewer leaves, errors within their bound."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

import holdfast
from holdfast import aggregates as agg
from holdfast.errors import InvalidArgumentError
from holdfast.spark.metrics import watch
from holdfast.windows import policies
from tests.spark.streams import read_batches, run, write_batches

SCHEMA = t.StructType(
    [
        t.StructField("meter", t.StringType()),
        t.StructField("ts", t.TimestampType()),
        t.StructField("kw", t.DoubleType()),
        t.StructField("price", t.DecimalType(10, 2)),
    ]
)
START = datetime(2026, 1, 1, tzinfo=UTC)
AGGS = [agg.sum("kw").alias("total"), agg.count().alias("n"), agg.mean("kw").alias("mean")]


def readings(batches, seconds=180, meters=3, seed=1):
    """A reading of every meter in every second, a file for each batch."""
    random = Random(seed)
    return [
        [
            {
                "meter": f"m{meter}",
                "ts": START + timedelta(seconds=batch * seconds + second),
                "kw": 100 + random.random(),
                "price": None,
            }
            for second in range(seconds)
            for meter in range(meters)
        ]
        for batch in range(batches)
    ]


@pytest.fixture
def stream(spark, tmp_path):
    write_batches(tmp_path / "in", SCHEMA, readings(4))
    return read_batches(spark, tmp_path / "in", SCHEMA).withWatermark("ts", "5 seconds")


def by_window(rows):
    return {(row.meter, row.window.end): row for row in rows}


def test_a_bound_holds_on_a_stream_and_state_shrinks(spark, tmp_path, stream):
    asked = {"key": "meter", "time": "ts", "size": "2m", "slide": "1s", "aggs": AGGS, "shards": 1}
    with watch(spark) as figures:
        exact, _ = run(holdfast.window(stream, **asked, name="exact"), tmp_path / "exact")
        rows, _ = run(
            holdfast.window(
                stream, **asked, approximate=holdfast.max_error("10%"), name="approximate"
            ),
            tmp_path / "approximate",
        )
    seen = {window.window: window for query in figures.snapshot() for window in query.windows}
    expected = by_window(exact)
    assert by_window(rows).keys() == expected.keys()
    for key, row in by_window(rows).items():
        assert row.within_bound
        for name in ("total", "n", "mean"):
            assert row[name] == pytest.approx(expected[key][name], rel=0.1)
    assert any(row.total != expected[key].total for key, row in by_window(rows).items())
    assert seen["exact"].panes >= 119
    assert seen["approximate"].panes < 60
    assert seen["approximate"].uncertain == 0
    assert seen["approximate"].pairs_written < seen["exact"].pairs_written


def test_a_limit_on_leaves_holds_on_a_stream_and_may_change_at_a_restart(spark, tmp_path):
    asked = {"key": "meter", "time": "ts", "size": "4m", "slide": "1s", "aggs": AGGS, "shards": 1}
    write_batches(tmp_path / "in", SCHEMA, readings(3))
    stream = read_batches(spark, tmp_path / "in", SCHEMA).withWatermark("ts", "5 seconds")
    panes = []
    for limit in (40, 10):
        with watch(spark) as figures:
            rows, _ = run(
                holdfast.window(stream, **asked, approximate=holdfast.max_leaves(limit)),
                tmp_path / "checkpoint",
            )
        panes.append(figures.snapshot()[0].total.panes)
        assert rows
        assert "within_bound" not in rows[0].asDict()
        write_batches(tmp_path / "in", SCHEMA, readings(5)[3:])
    assert panes[0] <= 40
    assert panes[1] <= 10
    for row in rows:
        assert 0 <= row.n - 240 <= 240 // 9 + 40 or row.window.end < START + timedelta(minutes=5)


def test_a_stream_and_a_static_frame_agree(spark, tmp_path, stream):
    asked = {"key": "meter", "time": "ts", "size": "1m", "slide": "1s", "aggs": AGGS, "shards": 1}
    methods = [holdfast.max_error("20%"), holdfast.max_leaves(30)]
    rows, _ = run(holdfast.window(stream, **asked, approximate=methods), tmp_path / "c")
    static = spark.read.schema(SCHEMA).parquet(str(tmp_path / "in"))
    everything = by_window(holdfast.window(static, **asked, approximate=methods).collect())
    assert rows
    for key, row in by_window(rows).items():
        assert row == everything[key]


@pytest.mark.parametrize(
    ("policy", "methods", "aggs", "tolerance"),
    [
        (policies.last(100), holdfast.max_error("10%"), AGGS, 0.1),
        (policies.last(100), [holdfast.max_leaves(12)], AGGS, 0.2),
        (policies.hopping(60, 20), holdfast.hops(), AGGS, 1e-9),
        (policies.last(80), holdfast.block_maxima(4), [agg.max("kw").alias("top")], 0.01),
    ],
    ids=["max_error", "max_leaves", "hops", "block_maxima"],
)
def test_policy_windows_are_approximated(spark, tmp_path, stream, policy, methods, aggs, tolerance):
    asked = {"key": "meter", "time": "ts", "policy": policy, "aggs": aggs, "shards": 1}
    with watch(spark) as figures:
        rows, _ = run(holdfast.window(stream, **asked, approximate=methods), tmp_path / "c")
    panes = figures.snapshot()[0].total.panes
    static = spark.read.schema(SCHEMA).parquet(str(tmp_path / "in"))
    exact = {(row.meter, row.ts): row for row in holdfast.window(static, **asked).collect()}
    same = holdfast.window(static, **asked, approximate=methods).collect()
    everything = {(row.meter, row.ts): row for row in same}
    assert len(rows) > 1_500
    for row in rows:
        assert row == everything[row.meter, row.ts]
        for aggregate in aggs:
            wanted = exact[row.meter, row.ts][aggregate.name]
            error = abs(row[aggregate.name] - wanted)
            assert error <= tolerance * wanted
    held = 3 * (policy.newest or 60)
    assert panes < 0.8 * held


@pytest.mark.parametrize(
    ("policy", "aggs", "method", "proven"),
    [
        (policies.hopping(150, 10), AGGS[:2], holdfast.max_error(absolute={"total": 5, "n": 5}), 1),
        (
            policies.Policy(eviction_invariant=lambda gone, left, all_: gone.value.n <= 3),
            AGGS[:2],
            holdfast.max_error(absolute={"total": 5, "n": 5}),
            0,
        ),
        (policies.last(80), [agg.max("kw").alias("top")], holdfast.block_maxima(4), None),
    ],
    ids=["hopping", "by what has left", "block_maxima"],
)
def test_rows_of_policy_windows_say_whether_they_are_proven(
    spark, tmp_path, policy, aggs, method, proven
):
    rows = [
        [{**row, "kw": row["kw"] % 1 if proven is None else 1.0} for row in batch]
        for batch in readings(4)
    ]
    write_batches(tmp_path / "in", SCHEMA, rows)
    stream = read_batches(spark, tmp_path / "in", SCHEMA).withWatermark("ts", "5 seconds")
    asked = {"key": "meter", "time": "ts", "policy": policy, "aggs": aggs, "shards": 1}
    with watch(spark) as figures:
        answers, _ = run(holdfast.window(stream, **asked, approximate=method), tmp_path / "c")
    static = spark.read.schema(SCHEMA).parquet(str(tmp_path / "in"))
    exact = {(row.meter, row.ts): row for row in holdfast.window(static, **asked).collect()}
    assert len(answers) > 1_500
    bound = 0 if proven is None else 5
    for row in answers:
        assert row.within_bound in (True, None)
        if row.within_bound:
            for aggregate in aggs:
                wanted = exact[row.meter, row.ts][aggregate.name]
                assert abs(row[aggregate.name] - wanted) <= bound
    certain = sum(bool(row.within_bound) for row in answers)
    assert figures.snapshot()[0].total.uncertain == len(answers) - certain
    if proven == 1:
        assert certain == len(answers)
    elif proven == 0:
        assert certain < len(answers) / 2
    else:
        assert len(answers) / 2 < certain


def test_rows_that_may_be_beyond_the_bound_say_so(spark, tmp_path):
    rows = [
        {
            "meter": "m",
            "ts": START + timedelta(seconds=second),
            "kw": 1_000.0 if second < 400 else 1.0,
            "price": None,
        }
        for second in range(700)
    ]
    write_batches(tmp_path / "in", SCHEMA, [rows[i : i + 175] for i in range(0, 700, 175)])
    stream = read_batches(spark, tmp_path / "in", SCHEMA).withWatermark("ts", "1 second")
    asked = {
        "key": "meter",
        "time": "ts",
        "size": "100s",
        "slide": "1s",
        "aggs": [agg.sum("kw").alias("total")],
        "shards": 1,
    }
    exact, _ = run(holdfast.window(stream, **asked), tmp_path / "exact")
    with watch(spark) as figures:
        answers, _ = run(
            holdfast.window(stream, **asked, approximate=holdfast.max_error("10%")),
            tmp_path / "approximate",
        )
    uncertain = figures.snapshot()[0].total.uncertain
    wanted = by_window(exact)
    beyond = [
        row for row in answers if abs(row.total / wanted[row.meter, row.window.end].total - 1) > 0.1
    ]
    assert beyond, "the level fell faster than anybody could predict"
    assert not any(row.within_bound for row in beyond)
    assert uncertain == sum(not row.within_bound for row in answers)
    assert sum(row.within_bound for row in answers) > 500


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"approximate": 0.1}, "approximate: is 0.1"),
        ({"approximate": [holdfast.max_error(0.1), holdfast.block_maxima(5)]}, "exclude"),
        ({"approximate": holdfast.hops()}, "hops goes with windows of single updates"),
        (
            {
                "approximate": holdfast.max_error(absolute=5),
                "aggs": [agg.sum("price").alias("p")],
            },
            "p, a decimal",
        ),
        (
            {
                "approximate": holdfast.max_leaves(9),
                "windows": [holdfast.sliding("1m", "1s"), holdfast.tumbling("1m")],
                "size": None,
                "slide": None,
            },
            "goes with one window",
        ),
        (
            {
                "approximate": holdfast.block_maxima(9),
                "policy": policies.last(5),
                "size": None,
                "slide": None,
            },
            "block_maxima: goes with windows that pick",
        ),
        (
            {"approximate": holdfast.max_error(0.1), "aggs": [agg.sum("kw").alias("within_bound")]},
            "two columns called within_bound",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_query_starts(spark, more, message):
    df = spark.createDataFrame([], SCHEMA).withColumn("kw", F.col("kw"))
    asked = {
        "key": "meter",
        "time": "ts",
        "size": "1m",
        "slide": "1s",
        "aggs": [agg.sum("kw").alias("total")],
        **more,
    }
    with pytest.raises(InvalidArgumentError, match=message):
        holdfast.window(df, **asked)
