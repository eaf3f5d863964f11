"""What only concerns approximate windows on Spark: which bounds its aggregates can have.

Called by `windows` and `policy_windows` before a query starts.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import DecimalType

from holdfast.errors import InvalidArgumentError
from holdfast.spark.measures import Measure
from holdfast.windows.approximation.methods import MaxError, Method, only

__all__ = ["check_bound"]


def check_bound(approximate: Sequence[Method], measures: Sequence[Measure]) -> None:
    """Refuse a bound on errors that has no meaning for one of these aggregates."""
    bound = only(MaxError, approximate)
    if bound is None:
        return
    if bound.of is not None and not isinstance(bound.of, str):
        raise InvalidArgumentError(
            "max_error: of takes functions of states only where windows are made in Python; here "
            "sums, counts and means are bounded, or with of='count' the number of rows"
        )
    for measure in measures:
        # States of decimals hold whole multiples of the last digit.
        if bound.absolute is not None and isinstance(measure.result_type, DecimalType):
            raise InvalidArgumentError(
                f"max_error: an absolute bound cannot be put on {measure.name}, a decimal; give a "
                "relative one, or cast the column to double"
            )
