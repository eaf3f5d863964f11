"""Aggregates of windows on Spark: `from holdfast import aggregates as agg`.

Handed to `holdfast.window(..., aggs=[agg.count(), agg.sum("value").alias("total")])`, which looks
the columns up; here nothing is calculated and neither Spark nor Arrow nor NumPy is loaded.

NULLs are left out by all but `count()`, `first` and `last`. A window whose rows are all NULL
answers NULL, a count 0. Results are named as Spark names them unless `alias` says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from reprlib import repr as shorten
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidArgumentError

if TYPE_CHECKING:
    from holdfast.windows.monoid import Monoid

__all__ = [
    "Aggregate",
    "approx_distinct",
    "approx_quantiles",
    "count",
    "custom",
    "first",
    "last",
    "max",
    "mean",
    "min",
    "range",
    "stddev",
    "stddev_population",
    "sum",
    "variance",
    "variance_population",
]


@dataclass(frozen=True)
class Aggregate:
    """One column of the result: a function of one column of the rows."""

    function: str
    column: str | None
    """A plain name of a column at the top level, dots and all; None only for `count()`."""
    name: str
    """What the result is called."""
    parameters: tuple[Any, ...] = ()
    monoid: Monoid[Any, Any, Any] | None = None
    result: str | None = None
    """The type of the result in Spark's DDL, where the function does not settle it."""

    def alias(self, name: str) -> Aggregate:
        """The same aggregate under another name."""
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(
                f"alias: {shorten(name)} is no name; give a string such as 'total'"
            )
        return replace(self, name=name)


def count(column: str | None = None) -> Aggregate:
    """How many rows there are, or how many of them have a value in the column."""
    if column is None:
        return Aggregate("count", None, "count(1)")
    return _of("count", column)


def sum(column: str) -> Aggregate:
    """The total: long for integers and exact, double for floats, decimal and exact for decimals.

    A total that does not fit into its type is an error, as in Spark.
    """
    return _of("sum", column)


def mean(column: str) -> Aggregate:
    """The average: double, or a decimal of four more digits for decimals, rounded half up."""
    return _of("mean", column, spark="avg")


def min(column: str) -> Aggregate:
    """The least value. NaN is greater than all other numbers, as in Spark."""
    return _of("min", column)


def max(column: str) -> Aggregate:
    """The greatest value. NaN is greater than all other numbers, as in Spark."""
    return _of("max", column)


def range(column: str) -> Aggregate:
    """The greatest value less the least one.

    Long for integers (Spark's own difference of two tinyints is a tinyint and overflows), double
    for floats, a day-time interval for dates and times.
    """
    return _of("range", column)


def variance(column: str) -> Aggregate:
    """The variance of the values as a sample, by n - 1; NULL for one value."""
    return _of("variance", column)


def variance_population(column: str) -> Aggregate:
    """The variance of the values as all there are, by n."""
    return _of("variance_population", column, spark="var_pop")


def stddev(column: str) -> Aggregate:
    """The standard deviation of the values as a sample; NULL for one value."""
    return _of("stddev", column)


def stddev_population(column: str) -> Aggregate:
    """The standard deviation of the values as all there are."""
    return _of("stddev_population", column, spark="stddev_pop")


def first(column: str) -> Aggregate:
    """The value at the earliest event time, whatever the order of arrival: Spark's `min_by`.

    NULL counts as a value. Of several rows at that time the least value is taken, NULL only if
    there is no other. Columns of any type.
    """
    return _of("first", column)


def last(column: str) -> Aggregate:
    """The value at the latest event time, whatever the order of arrival: Spark's `max_by`.

    NULL counts as a value. Of several rows at that time the greatest value is taken, NULL only if
    there is no other. Columns of any type.
    """
    return _of("last", column)


def approx_distinct(column: str, lg_k: int = 12) -> Aggregate:
    """About how many different values there are, by HyperLogLog with 2^lg_k registers.

    Off by about 1.04 / sqrt(2^lg_k), 1.6 % at 12. Columns of any type. All NaNs are one value,
    and so are 0.0 and -0.0.
    """
    from holdfast.windows import monoids

    monoids.approx_distinct(lg_k)
    return _of("approx_distinct", column, lg_k, spark="approx_count_distinct")


def approx_quantiles(column: str, probabilities: Iterable[float], k: int = 200) -> Aggregate:
    """About which values the given shares of all values lie below, by t-digest: array<double>.

    Ranks are off by about 1 % in the middle at k = 200, far less near the ends; 0 and 1 are the
    minimum and the maximum, exactly. Values are taken as doubles. The infinities and NaN take part
    in Spark's order of numbers: NaN is greater than all others, so it shows in the upper quantiles.
    Filter it out if it stands for a missing value.
    """
    from holdfast.windows import monoids

    # What is no iterable is refused with the others that make no sense.
    shares: Any = tuple(probabilities) if isinstance(probabilities, Iterable) else probabilities
    monoids.approx_quantiles(shares, k)
    return _of("approx_quantiles", column, tuple(map(float, shares)), k)


def custom(monoid: Monoid[Any, Any, Any], column: str, result: str) -> Aggregate:
    """A monoid of your own, row by row over Python values; NULLs are left out.

    `result` is the type of what `lower` answers, in Spark's DDL: "double", "array<string>". Panes
    are combined in the order of time, but the rows within a pane in any order, as their batches
    arrive: a monoid that does not commute must carry the time in its state. States go into
    checkpoints, so let them be plain Python values.
    """
    from holdfast.windows.monoid import Monoid

    if not isinstance(monoid, Monoid):
        raise InvalidArgumentError(
            f"custom: monoid is {shorten(monoid)}; give a holdfast.windows.Monoid"
        )
    if not isinstance(result, str) or not result.strip():
        raise InvalidArgumentError(
            f"custom: result is {shorten(result)}; give a type in Spark's DDL such as 'double'"
        )
    made = _of("custom", column, spark=monoid.name)
    return replace(made, monoid=monoid, result=result)


def _of(function: str, column: str, *parameters: Any, spark: str | None = None) -> Aggregate:
    if not isinstance(column, str) or not column:
        raise InvalidArgumentError(
            f"{function}: column is {shorten(column)}; give the name of a column. What is to be "
            "calculated first goes into a column of its own: df.withColumn('name', ...)"
        )
    return Aggregate(function, column, f"{spark or function}({column})", parameters)
