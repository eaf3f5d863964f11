"""The plan "native": one tumbling window of aggregates that Spark itself calculates alike.

Called by `holdfast.spark.windows` where a window needs nothing else. State is Spark's own, and of
that Spark compares only the types when a query goes on from a checkpoint: sum(a) would go on as
sum(b). So what a query calculates becomes part of the type of its state and of each row of it: two
more columns to group by, which are the same in all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from holdfast.aggregates import Aggregate
from holdfast.spark.columns import column_named
from holdfast.spark.keys import Keys

__all__ = ["native_aggregation", "native_window"]

_FUNCTIONS: Final[dict[str, Callable[[Column], Column]]] = {
    "count": F.count,
    "sum": F.sum,
    "mean": F.avg,
    "min": F.min,
    "max": F.max,
    "variance": F.var_samp,
    "variance_population": F.var_pop,
    "stddev": F.stddev_samp,
    "stddev_population": F.stddev_pop,
}

_OTHER_STATE: Final = (
    "Holdfast: this checkpoint is of other keys, windows or aggregates. Start the query with a new "
    "checkpointLocation, or go back to the old ones. Do not switch off stateSchemaCheck."
)

_TYPE: Final = "__holdfast_type"
_NUMBER: Final = "__holdfast_number"

_DECIMALS: Final = [(digits, scale) for digits in range(1, 39) for scale in range(digits + 1)]
_LEAST: Final = -(2**63)


def native_aggregation(aggregate: Aggregate, schema: T.StructType) -> Column | None:
    """Spark's own form of an aggregate over a DataFrame of this schema, if it has one."""
    if aggregate.column is None:
        column = F.lit(1)
    else:
        column = column_named(aggregate.column)
        if aggregate.function == "range":
            return _range(column, schema[aggregate.column].dataType, aggregate.name)
    function = _FUNCTIONS.get(aggregate.function)
    return None if function is None else function(column).alias(aggregate.name)


def native_window(
    df: DataFrame,
    keys: Keys,
    time: str,
    size_us: int,
    offset_us: int,
    aggregates: Sequence[Aggregate],
    signature: str,
) -> DataFrame:
    """Windows of Spark's own: the keys, `window`, a column for each aggregate, all of them native.

    `signature` and `time` say what the state is of. A query with others that is started from this
    one's checkpoint fails before it does anything.
    """
    size, offset = f"{size_us} microseconds", f"{offset_us % size_us} microseconds"
    window = F.window(column_named(time), size, size, offset).alias("window")
    columns = [native_aggregation(aggregate, df.schema) for aggregate in aggregates]
    known = [column for column in columns if column is not None]
    if not df.isStreaming:
        return df.groupBy(*keys.columns(), window).agg(*known)
    seal = _Seal(f"{signature} over {time}")
    sealed = df.groupBy(*keys.columns(), window, *seal.columns(time)).agg(*known)
    checked = sealed.where(seal.is_intact(column_named(aggregates[0].name)))
    return checked.drop(_TYPE, _NUMBER)


@dataclass(frozen=True)
class _Seal:
    """Marks state with what it is of.

    The type stops a query before its first batch, by Spark's own check. The number is for those who
    switch that check off: state of another query then stays apart, and fails when it is read.
    """

    signature: str

    def columns(self, time: str) -> list[Column]:
        """What to group by besides: NULL of a type of its own, and a number.

        They depend on the time so that the optimizer cannot tell that they never change, which
        would make it leave them out. No time is as small as that.
        """
        moment = F.unix_micros(column_named(time).cast("timestamp"))
        kind = F.when(moment == F.lit(_LEAST), F.struct(*self._fields()))
        number = F.when(moment > F.lit(_LEAST), F.lit(self._number))
        return [kind.alias(_TYPE), number.alias(_NUMBER)]

    def is_intact(self, answer: Column) -> Column:
        """True for a row of this query's own state; for others it raises.

        It also reads what is answered, or else the optimizer would ask it of rows that come in
        and not of those that come out of the state.
        """
        error = F.concat_ws(" ", F.lit(_OTHER_STATE), F.lit("Found:"), answer.cast("string"))
        return F.when(column_named(_NUMBER) == F.lit(self._number), F.lit(True)).otherwise(
            F.raise_error(error).cast("boolean")
        )

    @property
    def _digest(self) -> bytes:
        return sha256(self.signature.encode()).digest()

    @property
    def _number(self) -> int:
        return int.from_bytes(self._digest[:4], "big", signed=True)

    def _fields(self) -> list[Column]:
        """Digits of the digest, written as decimal types; Spark's error shows the fields' names."""
        rest = int.from_bytes(self._digest[4:], "big")
        fields = []
        for name in [_OTHER_STATE, *"234567"]:
            rest, digit = divmod(rest, len(_DECIMALS))
            digits, scale = _DECIMALS[digit]
            fields.append(F.lit(0).cast(T.DecimalType(digits, scale)).alias(name))
        return fields


def _range(column: Column, of: T.DataType, name: str) -> Column | None:
    least, greatest = F.min(column), F.max(column)
    match of:
        case T.IntegralType():
            found = greatest.cast("long") - least.cast("long")
        case T.FloatType() | T.DoubleType():
            found = greatest.cast("double") - least.cast("double")
        # Spark would give the widest ones fewer digits after the point.
        case T.DecimalType(precision=precision) if precision < 38:
            found = greatest - least
        case _:
            return None
    return found.alias(name)
