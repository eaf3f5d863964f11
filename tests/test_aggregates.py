"""What users write in `aggs`."""

import pickle
import subprocess
import sys

import pytest

from holdfast import aggregates as agg
from holdfast.aggregates import Aggregate
from holdfast.errors import InvalidArgumentError
from holdfast.windows import Monoid
from holdfast.windows import monoids as m

longest = Monoid("longest", "", lift=str, combine=max, lower=str)


@pytest.mark.parametrize(
    ("aggregate", "function", "name"),
    [
        (agg.count(), "count", "count(1)"),
        (agg.count("v"), "count", "count(v)"),
        (agg.sum("v"), "sum", "sum(v)"),
        (agg.mean("v"), "mean", "avg(v)"),
        (agg.min("v"), "min", "min(v)"),
        (agg.max("v"), "max", "max(v)"),
        (agg.range("v"), "range", "range(v)"),
        (agg.variance("v"), "variance", "variance(v)"),
        (agg.variance_population("v"), "variance_population", "var_pop(v)"),
        (agg.stddev("v"), "stddev", "stddev(v)"),
        (agg.stddev_population("v"), "stddev_population", "stddev_pop(v)"),
        (agg.first("v"), "first", "first(v)"),
        (agg.last("v"), "last", "last(v)"),
        (agg.approx_distinct("v"), "approx_distinct", "approx_count_distinct(v)"),
        (agg.approx_quantiles("v", [0.5]), "approx_quantiles", "approx_quantiles(v)"),
        (agg.custom(longest, "v", "string"), "custom", "longest(v)"),
    ],
)
def test_names_are_as_in_spark_unless_an_alias_is_given(
    aggregate: Aggregate, function: str, name: str
) -> None:
    assert (aggregate.function, aggregate.name) == (function, name)
    renamed = aggregate.alias("other")
    assert renamed.name == "other"
    assert renamed.alias(name) == aggregate


def test_parameters() -> None:
    assert agg.approx_distinct("v", lg_k=8).parameters == (8,)
    assert agg.approx_quantiles("v", [0, 0.5], k=100).parameters == ((0.0, 0.5), 100)
    custom = agg.custom(longest, "v", "string")
    assert (custom.monoid, custom.result, custom.column) == (longest, "string", "v")


def test_a_column_name_is_taken_as_it_is() -> None:
    assert agg.sum("a.b `c`").column == "a.b `c`"
    assert agg.sum("a.b").name == "sum(a.b)"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: agg.sum(None), "^sum: column is None"),
        (lambda: agg.sum(""), "^sum: column is ''"),
        (lambda: agg.min(["v"]), "^min: column is"),
        (lambda: agg.count(3), "^count: column is 3"),
        (lambda: agg.sum("v").alias(""), "^alias: "),
        (lambda: agg.sum("v").alias(7), "^alias: "),
        (lambda: agg.approx_distinct("v", lg_k=3), "lg_k is 3"),
        (lambda: agg.approx_distinct("v", lg_k="12"), "lg_k is '12'"),
        (lambda: agg.approx_quantiles("v", []), "probabilities is"),
        (lambda: agg.approx_quantiles("v", [1.5]), "probabilities is"),
        (lambda: agg.approx_quantiles("v", 0.5), "probabilities is"),
        (lambda: agg.approx_quantiles("v", [0.5], k=1), "k is 1"),
        (lambda: agg.custom(max, "v", "double"), "^custom: monoid is"),
        (lambda: agg.custom(m.sum, "v", None), "^custom: result is None"),
        (lambda: agg.custom(m.sum, "v", " "), "^custom: result is ' '"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make: object, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        make()


def test_probabilities_may_be_any_sequence() -> None:
    assert agg.approx_quantiles("v", iter([0.5, 1])).parameters[0] == (0.5, 1.0)


def test_aggregates_can_be_sent_to_another_process() -> None:
    for aggregate in (agg.count(), agg.approx_quantiles("v", [0.5]), agg.sum("v").alias("s")):
        assert pickle.loads(pickle.dumps(aggregate)) == aggregate


def test_importing_them_is_cheap() -> None:
    script = "import holdfast.aggregates, holdfast.intervals, sys; print(*sys.modules, sep='\\n')"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    loaded = {name.partition(".")[0] for name in ended.stdout.split()}
    assert "holdfast" in loaded
    assert not loaded & {"numpy", "pyarrow", "pyspark", "pandas", "datasketches"}
