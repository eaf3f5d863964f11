"""Columns that answer as Spark's SQL does: for the aggregates of windows on Spark.

They differ from those of `columns` where SQL differs: NaN is greater than all other numbers, whole
numbers are of any size, first and last go by time. NULLs are left out by `columns.nullable` around
them.
"""

from __future__ import annotations

from holdfast.windows.columns.sql.extremes import GREATEST, LEAST, span
from holdfast.windows.columns.sql.sketches import quantiles, sketch_distinct, sketch_quantiles
from holdfast.windows.columns.sql.timed import EARLIEST, LATEST, candidates
from holdfast.windows.columns.sql.totals import (
    FLOAT_MEAN,
    FLOAT_SUM,
    STDDEV,
    STDDEV_POPULATION,
    VARIANCE,
    VARIANCE_POPULATION,
    WHOLE_SUM,
    whole_mean,
)

__all__ = [
    "EARLIEST",
    "FLOAT_MEAN",
    "FLOAT_SUM",
    "GREATEST",
    "LATEST",
    "LEAST",
    "STDDEV",
    "STDDEV_POPULATION",
    "VARIANCE",
    "VARIANCE_POPULATION",
    "WHOLE_SUM",
    "candidates",
    "quantiles",
    "sketch_distinct",
    "sketch_quantiles",
    "span",
    "whole_mean",
]
