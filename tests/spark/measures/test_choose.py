"""What is refused before a query starts, and measures whose answers Spark has none for."""

import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from holdfast import aggregates as agg
from holdfast.aggregates import Aggregate
from holdfast.errors import InvalidArgumentError, InvalidValueError
from holdfast.spark.measures import Measure, measure_of
from holdfast.windows import monoids as m
from holdfast.windows.monoid import Monoid

SCHEMA = t.StructType(
    [
        t.StructField("value", t.DoubleType()),
        t.StructField("count", t.LongType()),
        t.StructField("text", t.StringType()),
        t.StructField("folded", t.StringType("UTF8_LCASE")),
        t.StructField("flag", t.BooleanType()),
        t.StructField("when", t.TimestampType()),
        t.StructField("months", t.YearMonthIntervalType()),
        t.StructField("list", t.ArrayType(t.LongType())),
        t.StructField("price", t.DecimalType(38, 2)),
        t.StructField("nothing", t.NullType()),
        t.StructField("a.b `c`", t.LongType()),
        t.StructField("twice", t.LongType()),
        t.StructField("twice", t.DoubleType()),
    ]
)


def run(measure: Measure, values: list, starts: list[int] | None = None, kind: Any = None) -> list:
    """The answers of stretches of rows."""
    array = None if measure.source is None else pa.array(values, kind)
    begin = np.array([0] if starts is None else starts)
    times = np.arange(len(values))
    return measure.answer(measure.partial(array, times, None, begin, len(begin))).to_pylist()


@pytest.mark.parametrize(
    ("aggregate", "says"),
    [
        (
            agg.sum("vlaue"),
            r"^aggs: sum\(vlaue\): the DataFrame has no column 'vlaue'; did you mean 'value'",
        ),
        (agg.sum("VALUE"), r"did you mean 'value'\?"),
        (agg.sum("zzz"), r"no column 'zzz'; it has 'value', 'count'"),
        (agg.sum("a.b"), r"no column 'a.b'"),
        (agg.sum("twice"), r"the DataFrame has 2 columns 'twice'"),
        (
            agg.sum("text"),
            r"^aggs: sum\(text\) needs numbers, text is string; "
            r"cast it: F.col\('text'\).cast\('double'\)$",
        ),
        (agg.mean("flag"), r"mean\(flag\) needs numbers, flag is boolean"),
        (agg.variance("when"), r"variance\(when\) needs numbers, when is timestamp"),
        (agg.stddev_population("list"), r"needs numbers, list is array<bigint>"),
        (agg.approx_quantiles("text", [0.5]), r"approx_quantiles\(text\) needs numbers"),
        (agg.range("text"), r"range\(text\) needs numbers or times, text is string"),
        (agg.range("flag"), r"range\(flag\) needs numbers or times"),
        (agg.min("list"), r"min\(list\) needs values that have an order"),
        (agg.max("nothing"), r"max\(nothing\) needs values that have an order"),
        (agg.max("folded"), r"max\(folded\) needs strings that compare byte by byte"),
        (agg.approx_distinct("folded"), r"needs strings that compare byte by byte"),
        (agg.first("months"), r"first\(months\) needs a type that Arrow has"),
        (agg.count("months"), r"count\(months\) needs a type that Arrow has"),
        (Aggregate("median", "value", "median(value)"), r"there is no aggregate 'median'"),
        ("sum", r"^aggs: 'sum' is no aggregate"),
    ],
)
def test_what_cannot_be_is_refused_by_name(aggregate: Any, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        measure_of(aggregate, SCHEMA)


def test_a_column_name_is_plain() -> None:
    measure = measure_of(agg.sum("a.b `c`"), SCHEMA)
    assert (measure.source, measure.name) == ("a.b `c`", "sum(a.b `c`)")
    assert run(measure, [1, 2]) == [3]


def test_signatures_tell_states_apart() -> None:
    other = t.StructType(
        [t.StructField("value", t.FloatType()), t.StructField("x", t.DoubleType())]
    )
    measures = [
        *(measure_of(make("value"), SCHEMA) for make in (agg.sum, agg.mean, agg.min, agg.count)),
        measure_of(agg.count(), SCHEMA),
        measure_of(agg.sum("value"), other),
        measure_of(agg.sum("x"), other),
        measure_of(agg.approx_distinct("value", 10), SCHEMA),
        measure_of(agg.approx_distinct("value", 11), SCHEMA),
        measure_of(agg.approx_quantiles("value", [0.5]), SCHEMA),
        measure_of(agg.approx_quantiles("value", [0.5], k=100), SCHEMA),
        measure_of(agg.approx_quantiles("value", [0.9]), SCHEMA),
    ]
    assert len({measure.signature for measure in measures}) == len(measures)
    renamed = measure_of(agg.sum("value").alias("total"), SCHEMA)
    assert renamed.signature == measures[0].signature


# Answers that do not fit


LONG = 2**63 - 1


def test_sums_are_exact_even_if_part_of_them_does_not_fit() -> None:
    measure = measure_of(agg.sum("count"), SCHEMA)
    assert run(measure, [LONG, 5, -5, -LONG - 1, -1, 1], [0, 3]) == [LONG, -LONG - 1]


@pytest.mark.parametrize("values", [[LONG, 1], [-LONG, -2], [LONG] * 5])
def test_a_sum_beyond_long_is_refused_when_it_is_answered(values: list[int]) -> None:
    measure = measure_of(agg.sum("count"), SCHEMA)
    state = measure.partial(pa.array(values), np.arange(len(values)), None, np.array([0]), 1)
    with pytest.raises(InvalidValueError) as refused:
        measure.answer(state)
    assert str(refused.value) == (
        f"aggs: sum(count): {sum(values)} does not fit into bigint; cast the column before: "
        "F.col('count').cast('decimal(38,0)') or .cast('double')"
    )


def test_a_range_beyond_long_is_refused() -> None:
    measure = measure_of(agg.range("count"), SCHEMA)
    assert run(measure, [LONG, 0]) == [LONG]
    with pytest.raises(
        InvalidValueError, match=r"range\(count\): 9223372036854775808 does not fit"
    ):
        run(measure, [LONG, -1])


@pytest.mark.parametrize("make", [agg.sum, agg.range])
def test_a_decimal_of_more_than_38_digits_is_refused(make: Callable[[str], Aggregate]) -> None:
    measure = measure_of(make("price"), SCHEMA)
    most = Decimal("9" * 36 + ".99")
    assert run(measure, [most, Decimal("0.00")], kind=pa.decimal128(38, 2)) == [most]
    least = Decimal("-0.01") if make is agg.range else Decimal("0.01")
    with pytest.raises(InvalidValueError, match=r"price\): 1\d{38} does not fit into decimal"):
        run(measure, [most, least], kind=pa.decimal128(38, 2))


# Rows and stretches


@pytest.mark.parametrize(
    "aggregate",
    [
        agg.count(),
        agg.count("value"),
        agg.sum("value"),
        agg.min("value"),
        agg.variance("value"),
        agg.first("value"),
        agg.last("value"),
        agg.approx_distinct("value"),
        agg.approx_quantiles("value", [0.5]),
    ],
)
@pytest.mark.parametrize("rows", [0, 3])
def test_no_stretches(aggregate: Aggregate, rows: int) -> None:
    measure = measure_of(aggregate, SCHEMA)
    values = None if measure.source is None else pa.array([1.0, None, 2.0][:rows], pa.float64())
    none = np.empty(0, np.int64)
    state = measure.partial(values, np.arange(rows), none if rows else None, none, 0)
    assert {len(field) for field in state} == {0}
    assert measure.answer(state).to_pylist() == []
    one = measure.partial(None if values is None else pa.array([5.0]), np.zeros(1), None, None, 1)
    (grown,) = {len(np.concatenate([a, b])) for a, b in zip(state, one, strict=True)}
    assert grown == 1


def test_states_do_not_keep_a_batch_in_memory() -> None:
    values = pa.array(np.arange(10.0))
    for make in (agg.sum, agg.min, agg.first):
        state = measure_of(make("value"), SCHEMA).partial(values, np.arange(10), None, None, 10)
        assert not any(np.shares_memory(field, values.to_numpy()) for field in state)


def test_a_column_of_nothing() -> None:
    nulls = [None, None]
    assert run(measure_of(agg.count("nothing"), SCHEMA), nulls, kind=pa.null()) == [0]
    assert run(measure_of(agg.last("nothing"), SCHEMA), nulls, kind=pa.null()) == [None]
    assert run(measure_of(agg.approx_distinct("nothing"), SCHEMA), nulls, kind=pa.null()) == [0]


def test_first_and_last_go_by_time() -> None:
    values, times = pa.array([1.0, None, 3.0, 2.0]), np.array([5, 9, 9, 1])
    for make, wanted in ((agg.first, 2.0), (agg.last, 3.0)):
        measure = measure_of(make("value"), SCHEMA)
        state = measure.partial(values, times, np.array([2, 0, 1, 3]), np.array([0]), 1)
        assert measure.answer(state).to_pylist() == [wanted]


# Monoids of the user


longest = Monoid(
    "longest",
    identity="",
    lift=lambda text: text,
    combine=lambda older, newer: newer if len(newer) > len(older) else older,
    lower=lambda text: {"text": text, "length": len(text)} if text != "?" else None,
)


def test_a_monoid_of_the_user(spark: SparkSession) -> None:
    aggregate = agg.custom(longest, "text", "struct<text: string, length: int>")
    measure = measure_of(aggregate, SCHEMA)
    assert measure.result_type.simpleString() == "struct<text:string,length:int>"
    answers = run(measure, ["a", None, "abc", "xy", None, None, "?"], [0, 3, 5, 6])
    wanted = [{"text": "abc", "length": 3}, {"text": "xy", "length": 2}, None, None]
    assert answers == wanted
    sent = pickle.loads(cloudpickle.dumps(measure))
    assert run(sent, ["a", None, "abc"]) == wanted[:1]
    assert measure.nothing(1).to_pylist() == [None]


def test_a_monoid_sees_python_values(spark: SparkSession) -> None:
    seen: list[Any] = []
    spy = Monoid("spy", 0, lift=lambda v: seen.append(v) or 1, combine=int.__add__, lower=int)
    run(
        measure_of(agg.custom(spy, "price", "long"), SCHEMA),
        [Decimal("1.50")],
        kind=pa.decimal128(38, 2),
    )
    run(measure_of(agg.custom(spy, "list", "long"), SCHEMA), [[1, None]])
    assert seen == [Decimal("1.50"), [1, None]]


def test_a_ready_made_monoid(spark: SparkSession) -> None:
    measure = measure_of(agg.custom(m.geometric_mean, "value", "double"), SCHEMA)
    assert run(measure, [2.0, None, 8.0]) == pytest.approx([4.0])


@pytest.mark.parametrize("result", ["dubble", "interval month", "array<"])
def test_a_result_type_that_makes_no_sense_is_refused(spark: SparkSession, result: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^aggs: custom\(text\): result is "):
        measure_of(agg.custom(longest, "text", result), SCHEMA)


def test_monoids_of_other_parameters_have_other_signatures(spark: SparkSession) -> None:
    made = [agg.custom(m.top_k(k), "value", "array<double>") for k in (2, 3)]
    two, three = (measure_of(aggregate, SCHEMA).signature for aggregate in made)
    assert two != three


# Sent to executors


@pytest.mark.parametrize(
    "aggregate",
    [
        agg.count(),
        agg.sum("value"),
        agg.mean("price"),
        agg.range("when"),
        agg.last("list"),
        agg.approx_distinct("text"),
        agg.approx_quantiles("value", [0.5]),
    ],
)
def test_measures_are_small_to_send(aggregate: Aggregate) -> None:
    measure = measure_of(aggregate, SCHEMA)
    sent = pickle.dumps(measure)
    assert len(sent) < 3_000
    again = pickle.loads(sent)
    assert again.signature == measure.signature
    assert again.result_type == measure.result_type
    assert again.nothing(2).equals(measure.nothing(2))
