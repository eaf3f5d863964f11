from __future__ import annotations

from typing import Any

import pytest

from holdfast import aggregates as agg
from holdfast.config.settings import Refused
from holdfast.pipeline.topology.expressions import FUNCTIONS, read_aggregate, write_aggregate
from holdfast.windows import monoids


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("count()", agg.count()),
        ("count(*) AS n", agg.count().alias("n")),
        ("count(1)", agg.count()),
        ("count(value)", agg.count("value")),
        (" MEAN ( value ) as mean ", agg.mean("value").alias("mean")),
        ("mean(`a b`) AS `c d`", agg.mean("a b").alias("c d")),
        ("last(a.b)", agg.last("a.b")),
        ("approx_distinct(value) AS about", agg.approx_distinct("value").alias("about")),
    ],
)
def test_aggregates_as_they_are_written(text: str, made: agg.Aggregate) -> None:
    assert read_aggregate(text) == made


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_can_be_read_and_written(name: str) -> None:
    made = read_aggregate(f"{name}(value)")
    assert made.function == name
    assert read_aggregate(made) == made
    assert read_aggregate(write_aggregate(made)) == made


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("avg(value)", "did you mean 'mean'?"),
        ("summ(value)", "did you mean 'sum'?"),
        ("median(value)", "use one of count, sum"),
        ("sum()", "sum() needs a column"),
        ("sum(*)", "sum() needs a column"),
        ("sum(a, b)", "is no aggregate"),
        ("sum(a + b)", "is no aggregate"),
        ("sum(a) b", "is no aggregate"),
        ("sum(a) AS", "is no aggregate"),
        ("sum(a) AS stime", "reserved"),
        ("", "is no aggregate"),
        (5, "5 is not an aggregate"),
        (agg.approx_distinct("a", lg_k=14), "parameters of its own"),
        (agg.approx_quantiles("a", [0.5]), "there is no aggregate 'approx_quantiles'"),
        (agg.custom(monoids.count, "a", "double"), "there is no aggregate 'custom'"),
        (agg.sum("a`b"), "backtick"),
    ],
)
def test_what_is_refused(value: Any, says: str) -> None:
    with pytest.raises(Refused) as caught:
        read_aggregate(value)
    (fault,) = caught.value.faults
    assert says in f"{fault.message}; {fault.remedy}"
