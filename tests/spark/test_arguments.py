"""What `holdfast.window` refuses: before a query starts, naming the argument and the remedy."""

import pytest
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast import aggregates as agg
from holdfast.errors import InvalidArgumentError
from holdfast.windows import policies

GOOD = {"key": "sensor", "time": "at", "size": "1h", "slide": "1s", "aggs": [agg.count()]}


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    columns = (
        "sensor string, at timestamp, late timestamp, value double, text string, m map<int,int>"
    )
    return spark.createDataFrame([], columns)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": "senso"}, "key: the DataFrame has no column 'senso'; did you mean 'sensor'"),
        ({"key": "m"}, "key: .*map"),
        ({"key": ["sensor", "sensor"]}, "key names .sensor. twice"),
        ({"time": "att"}, "time: the DataFrame has no column 'att'; did you mean 'at'"),
        (
            {"time": "value"},
            r"time: value is double, not timestamp; convert it .*cast\('timestamp'",
        ),
        ({"slide": "2h"}, "slide: 2h is more than size, 1h"),
        ({"size": "1 month"}, "size: .*month"),
        ({"size": "soon"}, "size: 'soon'"),
        ({"slide": "0s"}, "slide: 0s is not above zero"),
        ({"slide": "-1s"}, "slide: -1s is not above zero"),
        ({"size": None}, "size: is missing"),
        ({"windows": [holdfast.tumbling("1h")]}, "windows: comes in place of size"),
        ({"size": None, "slide": None, "windows": []}, "windows: is empty"),
        ({"size": None, "slide": None, "windows": ["1h"]}, "windows: has '1h'; give holdfast.sl"),
        (
            {"size": None, "slide": None, "windows": [holdfast.tumbling("1h")] * 2},
            "windows: two are called '1h'",
        ),
        ({"aggs": []}, r"aggs: is \[\]; give a list"),
        ({"aggs": agg.count()}, "aggs: is Aggregate"),
        ({"aggs": ["count"]}, "aggs: has 'count'; give aggregates"),
        ({"aggs": [agg.sum("text")]}, r"aggs: sum\(text\) needs numbers, text is string; cast it"),
        ({"aggs": [agg.sum("valu")]}, "aggs: .*valu.*value"),
        (
            {"aggs": [agg.sum("value"), agg.sum("value")]},
            r"aggs: .*two columns called sum\(value\)",
        ),
        ({"aggs": [agg.count().alias("Sensor")]}, "aggs: .*two columns called Sensor"),
        ({"aggs": [agg.count().alias("window")]}, "aggs: .*two columns called window"),
        ({"emit": "late"}, "emit: is 'late'; give 'final' or 'early'"),
        ({"empty": "-1s"}, "empty: -1s is below zero"),
        ({"shards": 0}, "shards"),
        ({"policy": policies.last(2)}, "size: does not go with policy"),
        ({"policy": 2, "size": None, "slide": None}, "policy: is 2; give one of"),
        ({"idle": "1h"}, "idle: goes with policy"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_mistakes_are_named_before_anything_starts(frame, arguments, message) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        holdfast.window(frame, **{**GOOD, **arguments})


def test_a_stream_without_a_watermark_is_told_how_to_get_one(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    arguments = {**GOOD, "key": "value", "time": "timestamp"}
    with pytest.raises(InvalidArgumentError, match=r"df has no watermark.*withWatermark\('timest"):
        holdfast.window(stream, **arguments)
    other = stream.selectExpr("value", "timestamp", "timestamp as other")
    with pytest.raises(InvalidArgumentError, match="the watermark is on other, so no window over"):
        holdfast.window(other.withWatermark("other", "1 second"), **arguments)
    assert holdfast.window(stream.withWatermark("timestamp", "1 second"), **arguments).isStreaming
