"""Monoids over NumPy columns: one row per key, all keys of a shard in a few array operations.

Used by `shard`. Each constant is the monoid of the same name in `monoids`, with the same state and
the same formulas; `objects` runs any other one row by row. Nothing here writes into an operand.

Rows are int64, float64, bool, datetime64 or timedelta64 where the values allow it and objects
otherwise. Where a scalar monoid answers None there is NaN in a float column.

`nullable` makes any of them leave out NULLs; `sql` has those that answer as Spark's SQL does.
"""

from __future__ import annotations

from holdfast.windows.columns.arithmetic import (
    COUNT,
    GEOMETRIC_MEAN,
    MEAN,
    STDDEV,
    STDDEV_POPULATION,
    SUM,
    VARIANCE,
    VARIANCE_POPULATION,
)
from holdfast.windows.columns.core import (
    Column,
    Columns,
    State,
    columns_of,
    objects,
    put,
    reduce_segments,
    rows,
)
from holdfast.windows.columns.nullable import nullable, present_stretches, spread
from holdfast.windows.columns.ordering import MAX, MIN, RANGE
from holdfast.windows.columns.sequences import ALL, ANY, FIRST, LAST
from holdfast.windows.columns.values import as_array, as_column

__all__ = [
    "ALL",
    "ANY",
    "COUNT",
    "FIRST",
    "GEOMETRIC_MEAN",
    "LAST",
    "MAX",
    "MEAN",
    "MIN",
    "RANGE",
    "STDDEV",
    "STDDEV_POPULATION",
    "SUM",
    "VARIANCE",
    "VARIANCE_POPULATION",
    "Column",
    "Columns",
    "State",
    "as_array",
    "as_column",
    "columns_of",
    "nullable",
    "objects",
    "present_stretches",
    "put",
    "reduce_segments",
    "rows",
    "spread",
]
