"""Windows without the operator: on a static DataFrame, and tumbling ones by Spark itself.

Called by `holdfast.spark.dataframe` where a window needs nothing else. State is Spark's own, and of
that Spark compares only the types when a query goes on from a checkpoint: sum(a) would go on as
sum(b). So what a query calculates becomes part of the type of its state: it groups by one more
column, which is NULL in all rows and of a type that says it all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from holdfast.aggregates import Aggregate
from holdfast.errors import InvalidArgumentError
from holdfast.spark.columns import column_named
from holdfast.spark.keys import Keys
from holdfast.spark.partials import unpack
from holdfast.spark.plan import Plan
from holdfast.spark.results import tabulate
from holdfast.windows.shard.panes import FARTHEST

__all__ = ["answer_shard", "native_aggregation", "native_window"]


def answer_shard(plan: Plan) -> Callable[[Any, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What `applyInArrow` is to do: all windows of one shard, from all of its blobs."""

    def answer(key: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        window = plan.make_window()
        for batch in batches:
            for blob in batch["blob"]:
                window.merge(unpack(blob.as_py()).partials)
        yield from tabulate(plan, window.advance(FARTHEST)).to_batches()

    return answer


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

_CHECK: Final = "spark.sql.streaming.stateStore.stateSchemaCheck"
_SEAL: Final = "__holdfast_seal"
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
    _require_check(df)
    seal = _sealed(f"{signature} over {time}", time).alias(_SEAL)
    return df.groupBy(*keys.columns(), window, seal).agg(*known).drop(_SEAL)


def _require_check(df: DataFrame) -> None:
    if str(df.sparkSession.conf.get(_CHECK, "true")).lower() == "false":
        raise InvalidArgumentError(
            f"df: its session has {_CHECK} = false, so that old state could be read wrongly; "
            "set it to true"
        )


def _sealed(signature: str, time: str) -> Column:
    """NULL of a type that no other signature has.

    It depends on the time so that the optimizer cannot tell that it never changes, which would make
    it leave the column out. No time is as small as that.
    """
    moment = F.unix_micros(column_named(time).cast("timestamp"))
    return F.when(moment == F.lit(_LEAST), F.struct(*_fields(signature)))


def _fields(signature: str) -> list[Column]:
    """Digits of a digest, written as decimal types; Spark's error shows the fields' names."""
    rest = int.from_bytes(sha256(signature.encode()).digest(), "big")
    fields = []
    for name in [_OTHER_STATE, *"234567"]:
        rest, digit = divmod(rest, len(_DECIMALS))
        fields.append(F.lit(0).cast(T.DecimalType(*_DECIMALS[digit])).alias(name))
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
