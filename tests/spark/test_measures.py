"""Every aggregate over every type of column, against Spark's own over the same rows."""

import math
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from holdfast import aggregates as agg
from holdfast.aggregates import Aggregate
from holdfast.spark.measures import Measure, measure_of
from holdfast.windows.columns import reduce_segments
from holdfast.windows.shard.tables import Table, Tables
from holdfast.windows.stores.codec import StateCodec

ROWS = 400
KEYS = 16
ONE_ROW, ALL_NULL, ONE_VALUE = 0, 1, 2
"""Keys with a single row, with NULLs only, and with NULLs and one value."""

Ask = Callable[[str], pa.Table]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MOMENT = datetime(1, 1, 2, tzinfo=UTC)
LAST_MOMENT = datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC)
LONGEST = timedelta(days=106_751_990)

WORDS = ["", "a", "B", "ß", "日", "😀", "a\0"]
SPECIAL = [math.nan, -0.0, 0.0, math.inf, -math.inf, 1.5]


def whole(bits: int) -> Callable[[random.Random], int]:
    edges = [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0]
    return lambda rng: rng.choice([*edges, rng.randrange(edges[0], edges[1])])


def decimal(digits: int, scale: int) -> Callable[[random.Random], Decimal]:
    edge = 10**digits - 1

    def draw(rng: random.Random) -> Decimal:
        near, far = rng.randrange(-99, 99), rng.randrange(-edge, edge)
        return Decimal(f"{rng.choice([edge, -edge, 0, near, far])}E-{scale}")

    return draw


def moment(rng: random.Random) -> datetime:
    near = EPOCH + timedelta(microseconds=rng.randrange(-(10**15), 10**15))
    return rng.choice([near, near, FIRST_MOMENT, LAST_MOMENT])


def struct(rng: random.Random) -> dict[str, Any]:
    return {"p": rng.choice([None, rng.randrange(3)]), "q": rng.choice([None, "x", "yö"])}


def dates(rng: random.Random) -> list[tuple[str, date]]:
    return [(word, moment(rng).date()) for word in rng.sample(WORDS, rng.randrange(3))]


NUMBERS = ["sum", "mean", "variance", "variance_population", "stddev", "stddev_population"]
ORDER = ["min", "max"]
ANY = ["count", "first", "last", "approx_distinct"]
NESTED = ["count", "approx_distinct"]
"""And first and last, which have an oracle of their own."""
ALL = [*NUMBERS, *ORDER, *ANY, "range", "approx_quantiles"]

TYPES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any], list[str]]] = {
    "byte": (pa.int8(), whole(8), ALL),
    "short": (pa.int16(), whole(16), ALL),
    "int": (pa.int32(), whole(32), ALL),
    "long": (pa.int64(), lambda rng: rng.randrange(-(2**55), 2**55), ALL),
    # Their sums and differences do not fit; see the tests of sums that do not.
    "edges": (pa.int64(), whole(64), [*ORDER, *ANY, "mean", "approx_quantiles"]),
    "float": (pa.float32(), lambda rng: np.float32(rng.choice([*SPECIAL, rng.gauss(0, 9)])), ALL),
    "double": (pa.float64(), lambda rng: rng.choice([*SPECIAL, rng.gauss(0, 1e9)]), ALL),
    "finite": (pa.float64(), lambda rng: rng.gauss(1e6, 1), ALL),
    "decimal": (pa.decimal128(10, 2), decimal(10, 2), ALL),
    "decimal18": (pa.decimal128(18, 0), decimal(18, 0), ALL),
    "decimal28": (pa.decimal128(28, 10), decimal(28, 10), ALL),
    "decimal38": (pa.decimal128(38, 4), decimal(34, 4), ALL),
    "boolean": (pa.bool_(), lambda rng: rng.random() < 0.5, [*ORDER, *ANY]),
    "string": (pa.string(), lambda rng: rng.choice(WORDS), [*ORDER, *ANY]),
    "binary": (pa.binary(), lambda rng: rng.randbytes(rng.randrange(3)), [*ORDER, *ANY]),
    "date": (pa.date32(), lambda rng: moment(rng).date(), [*ORDER, *ANY, "range"]),
    "timestamp": (pa.timestamp("us", "UTC"), moment, [*ORDER, *ANY, "range"]),
    "timestamp_ntz": (
        pa.timestamp("us"),
        lambda rng: moment(rng).replace(tzinfo=None),
        [*ORDER, *ANY, "range"],
    ),
    "interval": (
        pa.duration("us"),
        lambda rng: rng.choice([LONGEST / 3, -LONGEST / 3, rng.random() * LONGEST / 9]),
        [*ORDER, *ANY, "range"],
    ),
    "array": (pa.list_(pa.int32()), lambda rng: [rng.randrange(3)] * rng.randrange(3), NESTED),
    "struct": (pa.struct([("p", pa.int32()), ("q", pa.string())]), struct, NESTED),
    "map": (pa.map_(pa.string(), pa.date32()), dates, NESTED),
}


def make_rows(rng: random.Random) -> pa.Table:
    """Rows with every type of column, about a fifth of the values NULL."""
    keys = [ONE_ROW, ONE_VALUE, *(rng.randrange(1, KEYS) for _ in range(ROWS - 2))]
    columns: dict[str, Any] = {"k": pa.array(keys, pa.int32())}
    # Few times, so that several rows of a key have the same.
    columns["t"] = pa.array([rng.randrange(-5, 5) for _ in keys], pa.int64())
    for name, (kind, draw, _) in TYPES.items():
        values = [draw(rng) if rng.random() < 0.8 else None for _ in keys]
        values[0], values[1] = draw(rng), draw(rng)
        for place, key in enumerate(keys):
            if key == ALL_NULL or (key == ONE_VALUE and place > 1):
                values[place] = None
        columns[name] = pa.array(values, kind)
    return pa.table(columns)


def make_aggregate(function: str, column: str) -> Aggregate:
    if function == "approx_quantiles":
        return agg.approx_quantiles(column, [0.0, 1.0])
    return getattr(agg, function)(column)


def ask_spark(function: str, name: str) -> Column:
    """Spark's own aggregate, or what comes to the same."""
    value = fn.col(name)
    match function:
        case "mean":
            return fn.avg(value)
        case "variance_population":
            return fn.var_pop(value)
        case "stddev_population":
            return fn.stddev_pop(value)
        case "first":
            return fn.min(fn.struct("t", value.isNull(), value.alias("v")))["v"]
        case "last":
            return fn.max(fn.struct("t", value.isNotNull(), value.alias("v")))["v"]
        case "approx_quantiles":
            # Not percentile_approx: where there is NaN its answers depend on the order of rows.
            ends = fn.array(fn.min(value).cast("double"), fn.max(value).cast("double"))
            return fn.when(fn.count(value) > 0, ends)
        case "range":
            # As ours: wide enough for every difference.
            wider = {"byte": "long", "short": "long", "int": "long", "float": "double"}
            if name in wider:
                value = value.cast(wider[name])
            return fn.max(value) - fn.min(value)
        case _:
            return getattr(fn, function)(value)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return make_rows(random.Random(3))


@pytest.fixture(scope="module")
def schema(spark: SparkSession, rows: pa.Table) -> StructType:
    return spark.createDataFrame(rows).schema


@pytest.fixture(scope="module")
def ask(spark: SparkSession, rows: pa.Table) -> Ask:
    """What Spark answers about a column for each key, in the order of the keys."""
    frame = spark.createDataFrame(rows)

    @cache
    def ask_about(name: str) -> pa.Table:
        functions = [function for function in TYPES[name][2] if function != "approx_distinct"]
        asked = [ask_spark(function, name).alias(function) for function in functions]
        return frame.groupBy("k").agg(fn.count("*").alias("rows"), *asked).toArrow().sort_by("k")

    return ask_about


def reduce_rows(measure: Measure, piece: pa.Table, rng: random.Random) -> Table:
    """The states of the keys in some rows, reduced at once or row by row, and stored between."""
    keys = piece["k"].to_numpy()
    times = piece["t"].to_numpy()
    order = np.argsort(keys, kind="stable")
    ids, starts = np.unique(keys[order], return_index=True)
    values = None
    if measure.source is not None:
        values = piece[measure.source].combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = values.chunk(0)
    if rng.random() < 0.3:
        state = measure.partial(values, times, order, None, len(keys))
        state = reduce_segments(measure.columns, state, starts)
    else:
        state = measure.partial(values, times, order, starts, len(starts))
    codec = StateCodec()
    return Table(ids, (codec.decode(codec.encode(state)),))


def answer(measure: Measure, rows: pa.Table, seed: int) -> pa.Array:
    """The answers for all keys, from rows in any order, in pieces combined in any order."""
    rng = random.Random(seed)
    shuffled = rows.take(rng.sample(range(len(rows)), len(rows))).combine_chunks()
    cuts = sorted({0, len(rows), *(rng.randrange(len(rows)) for _ in range(rng.randrange(5)))})
    pieces = [shuffled.slice(a, b - a) for a, b in pairwise(cuts)]
    tables = [reduce_rows(measure, piece, rng) for piece in rng.sample(pieces, len(pieces))]
    combine = Tables([measure.columns]).combine
    whole = tables[0]
    for table in tables[1:]:
        whole = combine(whole, table)
    assert whole.ids.tolist() == sorted(set(rows["k"].to_pylist()))
    answers = measure.answer(whole.states[0])
    answers.validate(full=True)
    assert answers.type == measure.arrow_type
    return answers


CASES = [
    (function, name)
    for name, (_, _, functions) in TYPES.items()
    for function in functions
    if function != "approx_distinct"
]
ROUNDED = [*NUMBERS, "range", "approx_quantiles"]


@pytest.mark.parametrize(("function", "name"), CASES)
def test_answers_are_those_of_spark(
    rows: pa.Table, schema: StructType, ask: Ask, function: str, name: str
) -> None:
    measure = measure_of(make_aggregate(function, name), schema)
    wanted = ask(name)[function]
    if function != "approx_quantiles":
        assert measure.arrow_type == wanted.type
    for seed in range(3):
        answers = answer(measure, rows, seed)
        assert answers.null_count == wanted.null_count
        for given, spark in zip(answers.to_pylist(), wanted.to_pylist(), strict=True):
            assert_same(given, spark, rounded=function in ROUNDED)


@pytest.mark.parametrize("function", ["first", "last"])
@pytest.mark.parametrize("name", ["array", "struct", "map"])
def test_nested_values_are_picked_by_time(
    rows: pa.Table, schema: StructType, function: str, name: str
) -> None:
    measure = measure_of(make_aggregate(function, name), schema)
    pick = min if function == "first" else max
    candidates: dict[int, list[Any]] = {}
    every = list(zip(*(rows[column].to_pylist() for column in ("k", "t", name)), strict=True))
    for key in range(KEYS):
        when = pick(t for k, t, _ in every if k == key)
        here = [value for k, t, value in every if (k, t) == (key, when)]
        candidates[key] = [value for value in here if value is not None] or here
    answers = [answer(measure, rows, seed).to_pylist() for seed in range(4)]
    assert answers[1:] == answers[:-1]
    assert all(given in candidates[key] for key, given in enumerate(answers[0]))
    assert max(map(len, candidates.values())) > 1


def assert_same(given: Any, wanted: Any, rounded: bool) -> None:
    if isinstance(wanted, list):
        assert len(given) == len(wanted)
        for a, b in zip(given, wanted, strict=True):
            assert_same(a, b, rounded)
    elif isinstance(wanted, float):
        assert given == pytest.approx(wanted, rel=1e-9 if rounded else 0, abs=0, nan_ok=True)
    else:
        assert given == wanted
        assert type(given) is type(wanted)


@pytest.mark.parametrize("name", TYPES)
def test_few_distinct_values_are_counted_exactly(
    rows: pa.Table, schema: StructType, name: str
) -> None:
    measure = measure_of(agg.approx_distinct(name), schema)
    values: dict[int, set[str]] = {key: set() for key in range(KEYS)}
    for key, value in zip(rows["k"].to_pylist(), rows[name].to_pylist(), strict=True):
        if value is not None:
            values[key].add(repr(value).replace("-0.0", "0.0"))
    for seed in range(3):
        assert answer(measure, rows, seed).to_pylist() == [len(values[k]) for k in sorted(values)]


def test_rows_are_counted_whatever_they_hold(rows: pa.Table, schema: StructType, ask: Ask) -> None:
    measure = measure_of(agg.count(), schema)
    assert answer(measure, rows, seed=1).to_pylist() == ask("double")["rows"].to_pylist()


def test_the_oracle_has_the_keys_that_matter(rows: pa.Table, ask: Ask) -> None:
    keys = rows["k"].to_pylist()
    assert keys.count(ONE_ROW) == 1
    assert keys.count(ALL_NULL) > 1
    counts = ask("double")["count"].to_pylist()
    assert [counts[ONE_ROW], counts[ALL_NULL], counts[ONE_VALUE]] == [1, 0, 1]
    assert ask("double")["sum"].null_count == 1


def test_answers_reach_spark_with_the_types_they_promise(
    spark: SparkSession, rows: pa.Table, schema: StructType
) -> None:
    every = [(function, name) for name, (*_, functions) in TYPES.items() for function in functions]
    every += [(function, name) for function in ("first", "last") for name in ("struct", "map")]
    answers, promised = [], StructType()
    for function, name in every:
        measure = measure_of(make_aggregate(function, name).alias(f"{function} {name}"), schema)
        promised = promised.add(measure.name, measure.result_type)
        answers.append(pa.concat_arrays([answer(measure, rows, seed=0), measure.nothing(2)]))

    def emit(_: Any) -> Any:
        yield pa.RecordBatch.from_arrays(answers, promised.names)

    got = spark.range(1, numPartitions=1).mapInArrow(emit, promised).toArrow()
    for (function, _), given, sent in zip(every, got.columns, answers, strict=True):
        assert repr(given.to_pylist()) == repr(sent.to_pylist())
        without_rows = 0 if function in ("count", "approx_distinct") else None
        assert sent[-2:].to_pylist() == [without_rows] * 2
