"""Plan of a window on Spark, resolved against a DataFrame.

Made by `dataframe`, pickled to the executors. `partials`, `operator` and `results` read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    StringType,
    StructField,
    StructType,
)

from holdfast.errors import InvalidArgumentError
from holdfast.spark.keys import Keys
from holdfast.spark.measures import Measure
from holdfast.windows import Amta
from holdfast.windows.approximation.methods import MaxError, Method, only
from holdfast.windows.shard import Panes, ShardWindow, Span

__all__ = ["WITHIN_BOUND", "Plan", "check_bound"]


# What only concerns approximate windows on Spark: which bounds its aggregates can have.
#
# Called by `windows` and `policy_windows` before a query starts.


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


WITHIN_BOUND: Final = "within_bound"
"""The column that says whether a result is sure to be within the bound on its error."""


@dataclass(frozen=True)
class Plan:
    """A window over the keys of a DataFrame."""

    keys: Keys
    time_type: DataType
    spans: tuple[Span, ...]
    """In microseconds."""
    names: tuple[str, ...] | None
    """What the spans are called, if results are to say it."""
    measures: tuple[Measure, ...]
    shards: int
    early: bool
    linger: int | None
    late: str | None
    approximate: tuple[Method, ...] = ()

    @property
    def signature(self) -> str:
        """All that saved state depends on: states of plans that differ in it do not mix."""
        return f"{self.meaning} in {self.shards} shards"

    @property
    def meaning(self) -> str:
        """The same but for how keys are spread."""
        keys = ", ".join(
            f"{field.name} {field.dataType.simpleString()}" for field in self.keys.fields
        )
        spans = ", ".join(f"{span.size}/{span.slide}+{span.offset}" for span in self.spans)
        measures = ", ".join(measure.signature for measure in self.measures)
        idle = "" if self.linger is None else f" empty for {self.linger}"
        return f"windows {spans} of {measures} by ({keys}){idle}{self._buckets}"

    @property
    def _buckets(self) -> str:
        """How saved state differs for being approximate. The figures of the methods do not matter:
        they decide about buckets to come."""
        if not self.approximate:
            return ""
        bound = only(MaxError, self.approximate)
        if bound is None:
            return " in buckets"
        kind = "absolute" if bound.relative is None else "relative"
        return f" in buckets with {kind} errors of {bound.of or 'sums'}"

    @property
    def bounded(self) -> bool:
        """Whether results say if they are within a bound."""
        return only(MaxError, self.approximate) is not None

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The columns that the measures read."""
        read = [measure.source for measure in self.measures if measure.source is not None]
        return tuple(dict.fromkeys(read))

    @cached_property
    def panes(self) -> Panes:
        return Panes(self.spans)

    def make_window(self, open_amta: Any = Amta) -> ShardWindow:
        first, *more = self.spans
        return ShardWindow(
            {measure.name: (measure.columns, None) for measure in self.measures},
            first.size,
            first.slide,
            offset=first.offset,
            more=more,
            linger=self.linger,
            approximate=self.approximate or None,
            open_amta=open_amta,
        )

    @property
    def schema(self) -> StructType:
        """What results look like."""
        return self._schema(self.keys.fields)

    @property
    def carried_schema(self) -> StructType:
        """The same while they are Arrow."""
        return self._schema(self.keys.carried)

    def _schema(self, keys: list[StructField]) -> StructType:
        bounds = [StructField("start", self.time_type), StructField("end", self.time_type)]
        fields = [*keys, StructField("window", StructType(bounds), False)]
        if self.names is not None:
            fields.append(StructField("window_name", StringType(), False))
        fields += [StructField(measure.name, measure.result_type) for measure in self.measures]
        if self.bounded:
            fields.append(StructField(WITHIN_BOUND, BooleanType(), False))
        if self.early:
            fields.append(StructField("final", BooleanType(), False))
        return StructType(fields)
