"""The ready-made monoids, under the names PySpark users know from `pyspark.sql.functions`.

Import it as `from holdfast.windows import monoids as m`: `m.sum`, `m.min` and others share their
names with builtins. Constants are monoids; functions take parameters and return one. Any of them
works in any window, over any updates: `m.sum.over("price")`, `m.max.over(lambda row: row.price)`.

Your own takes an identity and three functions:

>>> from holdfast.windows.amta import Amta
>>> from holdfast.windows.monoid import Monoid
>>> longest = Monoid(
...     "longest",
...     identity="",
...     lift=str,
...     combine=lambda older, newer: newer if len(newer) > len(older) else older,
...     lower=len,
... )
>>> window = Amta(longest)
>>> for word in ("to", "window", "a", "stream"):
...     window.insert(word)
>>> window.result()
6

NaN: what orders its values (`min`, `top_k`, `time` ...) refuses it. Sums, means and variances let
NaN and the infinities through as IEEE 754 has it; since nothing is ever subtracted from a window,
they leave it with the update that brought them. None is refused wherever a number or an order is
needed: Spark leaves NULLs out, so filter them out first.
"""

from __future__ import annotations

from holdfast.windows.monoids.arithmetic import (
    count,
    geometric_mean,
    mean,
    stddev,
    stddev_population,
    sum,
    variance,
    variance_population,
)
from holdfast.windows.monoids.ordering import (
    Histogram,
    arg_max,
    arg_min,
    histogram,
    max,
    min,
    range,
    top_k,
)
from holdfast.windows.monoids.record import Record, product
from holdfast.windows.monoids.sequences import (
    all,
    any,
    collect,
    first,
    last,
    longest_increasing_run,
    time,
)
from holdfast.windows.monoids.sketches import approx_distinct, approx_quantiles

__all__ = [
    "Histogram",
    "Record",
    "all",
    "any",
    "approx_distinct",
    "approx_quantiles",
    "arg_max",
    "arg_min",
    "collect",
    "count",
    "first",
    "geometric_mean",
    "histogram",
    "last",
    "longest_increasing_run",
    "max",
    "mean",
    "min",
    "product",
    "range",
    "stddev",
    "stddev_population",
    "sum",
    "time",
    "top_k",
    "variance",
    "variance_population",
]
