"""Columns that come out the same on every replica, where Spark's own depend on chance.

Spark adds floating-point numbers in the order in which tasks finish, breaks ties as it likes, looks
at its own clock and draws its own random numbers. Each of these differs between replicas, and looks
like a lie. Here is what to take instead; `suspects` finds what should be replaced.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from functools import cache
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from holdfast.errors import InvalidArgumentError

JOB_TIME: Final = "HOLDFAST_JOB_TIME"
"""Environment variable: when the job was submitted, in microseconds since 1970."""
_MOST_DIGITS: Final = 38


def total_order(df: DataFrame, *first: str | Column) -> list[Column]:
    """Columns to sort by, these first, that leave no ties: equal rows are equal throughout.

    For `orderBy`, and for windows: `row_number().over(Window.partitionBy(...).orderBy(*...))`.
    """
    rest = [F.col(_quoted(each.name)) for each in df.schema if _is_sortable(each.dataType)]
    return [F.col(each) if isinstance(each, str) else each for each in first] + rest


def ordered(df: DataFrame, *first: str | Column) -> DataFrame:
    """Sorted by these columns and, where they are equal, by all others: for `limit` after it."""
    return df.orderBy(*total_order(df, *first))


def stable_sum(column: str | Column, *, digits: int | None = None) -> Column:
    """The sum of floating-point numbers, to the last bit the same in whatever order they come.

    Without `digits` the numbers of a group are sorted first, so one task must hold those of the
    largest group. With `digits`, each is rounded to so many places after the point and added
    exactly; groups may have any size. NULLs are left out; a group without numbers gives NULL.
    """
    value = F.col(column) if isinstance(column, str) else column
    if digits is None:
        numbers = F.array_sort(F.collect_list(value.cast("double")))
        total = F.aggregate(numbers, F.lit(0.0), lambda so_far, each: so_far + each)
        return F.when(F.count(value) > 0, total)
    if not 0 <= digits <= _MOST_DIGITS // 2:
        raise InvalidArgumentError(
            f"stable_sum: digits is {digits}; give a number within 0 and {_MOST_DIGITS // 2}"
        )
    exact = F.round(value.cast("double"), digits).cast(T.DecimalType(_MOST_DIGITS - 10, digits))
    return F.sum(exact).cast("double")


def stable_average(column: str | Column, *, digits: int | None = None) -> Column:
    """`stable_sum` over the number of values."""
    value = F.col(column) if isinstance(column, str) else column
    return stable_sum(value, digits=digits) / F.count(value)


def job_time() -> Column:
    """When the job was submitted: the same timestamp in all replicas and stages.

    Where no replica runs, when it was first asked for.
    """
    given = os.environ.get(JOB_TIME)
    moment = int(given) if given is not None else _asked_first()
    return F.lit(datetime.fromtimestamp(moment / 1_000_000, UTC))


def seeded_random(seed: int, *keys: str | Column) -> Column:
    """A number within 0 and 1, 1 left out, drawn from the seed and the row's keys alone.

    Rows with equal keys get the same one, so take keys that tell all rows apart.
    """
    if not keys:
        raise InvalidArgumentError(
            "seeded_random: keys is empty; name columns that tell rows apart"
        )
    columns = [F.col(each) if isinstance(each, str) else each for each in keys]
    drawn = F.xxhash64(F.lit(seed).cast("bigint"), *columns)
    return F.shiftrightunsigned(drawn, 11).cast("double") * F.lit(2.0**-53)


@cache
def _asked_first() -> int:
    return time.time_ns() // 1000


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _is_sortable(kind: T.DataType) -> bool:
    match kind:
        case T.ArrayType():
            return _is_sortable(kind.elementType)
        case T.StructType():
            return all(_is_sortable(each.dataType) for each in kind)
    return not isinstance(kind, T.MapType | T.VariantType | T.CalendarIntervalType)
