"""Interval strings mean to us what they mean to Spark's window()."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from holdfast.errors import InvalidArgumentError
from holdfast.intervals import parse_interval

GOOD = [
    "1 hour",
    "1 hours",
    "1 hour 30 minutes",
    "interval 10 seconds",
    "INTERVAL 10 SECONDS",
    "2 weeks",
    "500 milliseconds",
    "1 microsecond",
    "1 day -1 hour",
    "+1 hour",
    "1.5 seconds",
    "0.000001 second",
    ".5 second",
    "1. second",
    "  1   hour ",
    "1\thour",
    "01 hour",
    "1 second 1 second",
    "1 week 1 day 2 hours 3 minutes 4 seconds 5 milliseconds 6 microseconds",
    "106751991 days",
    "9223372036854775807 microseconds",
]
BAD = [
    "1 month",
    "1 year",
    "1 year 1 day",
    "1.5 hours",
    "1 fortnight",
    "1 nanosecond",
    "interval",
    "hour",
    "1",
    "1_000 seconds",
    "1 hour,",
    "1 hour ago",
    "interval1 hour",
    "intervals 1 hour",
    "106751992 days",
    "9223372036854775808 microseconds",
    "\u0661 hour",
]


def test_what_spark_takes_means_the_same(spark: SparkSession) -> None:
    epoch = fn.timestamp_seconds(fn.lit(0))
    ends = [fn.unix_micros(epoch + fn.lit(text).cast("interval")) for text in GOOD]
    (given,) = spark.range(1).select(*ends).collect()
    assert list(given) == [parse_interval("size", text) for text in GOOD]


@pytest.mark.parametrize("text", BAD)
def test_what_spark_refuses_is_refused(spark: SparkSession, text: str) -> None:
    when = spark.range(1).select(fn.timestamp_seconds(fn.lit(0)).alias("t"))
    with pytest.raises(PySparkException):
        when.select(fn.window("t", text)).collect()
    with pytest.raises(InvalidArgumentError, match=r"^size: "):
        parse_interval("size", text)
