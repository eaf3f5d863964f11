"""Plan of a programmable window on Spark, resolved against a DataFrame.

Made by `call`, pickled to the executors, read by all other modules of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, DataType, NumericType, StructField, StructType

from holdfast.aggregates import Aggregate
from holdfast.spark.keys import Keys
from holdfast.spark.measures import Measure
from holdfast.spark.plan import WITHIN_BOUND
from holdfast.spark.policy_windows.scalars import Scalar, scalar_of
from holdfast.windows import Amta
from holdfast.windows.approximation import ApproximateWindow
from holdfast.windows.approximation.methods import BlockMaxima, MaxError, MaxLeaves, Method
from holdfast.windows.monoid import HOLE, Addend, Monoid, with_updates
from holdfast.windows.monoids import Record
from holdfast.windows.policies import Policy

__all__ = ["NULL", "TIME", "Moment", "Null", "PolicyPlan", "shown"]


# What a policy sees of a window on Spark: times in microseconds, and NULL as a value.
#
# Used by `plan` for the record that a policy's predicates are given.

_MICROSECOND: Final = timedelta(microseconds=1)


class Moment(int):
    """An event time or a span between two, in microseconds; also compares with a timedelta."""

    def __sub__(self, other: int) -> Moment:
        return Moment(int(self) - int(other))

    def __lt__(self, other: Any) -> bool:
        return int(self) < _ticks(other)

    def __le__(self, other: Any) -> bool:
        return int(self) <= _ticks(other)

    def __gt__(self, other: Any) -> bool:
        return int(self) > _ticks(other)

    def __ge__(self, other: Any) -> bool:
        return int(self) >= _ticks(other)


def _ticks(other: Any) -> Any:
    return other // _MICROSECOND if isinstance(other, timedelta) else other


class Null(Enum):
    """The type of `NULL`."""

    NULL = "NULL"

    def __lt__(self, other: object) -> bool:
        return other is not self

    def __le__(self, other: object) -> bool:
        return True

    def __gt__(self, other: object) -> bool:
        return False

    def __ge__(self, other: object) -> bool:
        return other is self

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "NULL"


NULL: Final = Null.NULL
"""An aggregate of no values: less than every value, as where Spark sorts, so that a bound holds and
a predicate need not ask. False as a condition: `window.total or 0`."""


def shown(show: Callable[[Any], Any], state: Any) -> Any:
    """What a state answers, for a policy."""
    answer = None if state is None else show(state)
    return NULL if answer is None else answer


TIME: Final = "time"
"""What policies call the event time."""

Update = tuple[Any, ...]
"""The time of a row, and what each aggregate reads of it."""


@dataclass(frozen=True)
class PolicyPlan:
    """A window for each key of a DataFrame, slid by a policy."""

    keys: Keys
    time: str
    time_type: DataType
    policy: Policy
    aggregates: tuple[Aggregate, ...]
    measures: tuple[Measure, ...]
    shards: int
    idle: int | None
    """In microseconds."""
    late: str | None
    approximate: tuple[Method, ...] = ()

    @property
    def signature(self) -> str:
        """All that saved state depends on, as far as it can be told: two predicates of one name and
        the same plain parameters are taken for one."""
        keys = ", ".join(
            f"{field.name} {field.dataType.simpleString()}" for field in self.keys.fields
        )
        measures = ", ".join(measure.signature for measure in self.measures)
        idle = "" if self.idle is None else f" idle for {self.idle}"
        return (
            f"windows by {_describe(self.policy)} of {measures} over {self.time} "
            f"{self.time_type.simpleString()} by ({keys}){idle}{self._buckets} in {self.shards} "
            "shards"
        )

    @property
    def _buckets(self) -> str:
        """The limit on leaves may change between two runs, nothing else."""
        kept = [str(method) for method in self.approximate if not isinstance(method, MaxLeaves)]
        return f" in buckets by {kept}" if self.approximate else ""

    @property
    def bounded(self) -> bool:
        """Whether results say if they are within a bound, or if a maximum is sure to be exact."""
        return any(isinstance(method, MaxError | BlockMaxima) for method in self.approximate)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The columns that the aggregates read."""
        read = [measure.source for measure in self.measures if measure.source is not None]
        return tuple(dict.fromkeys(read))

    @cached_property
    def scalars(self) -> list[Scalar]:
        return list(map(scalar_of, self.aggregates, self.measures))

    @cached_property
    def monoid(self) -> Monoid[Update, tuple[Any, ...], Record]:
        """All aggregates and the time, over updates; answers what policies see.

        Not `monoids.product`: names of results need not be names of Python.
        """
        parts = [scalar.monoid for scalar in self.scalars]
        lifts = [part.lift for part in parts]
        combines = [part.combine for part in parts]
        fields: dict[str, tuple[int, Callable[[Any], Any]]] = {TIME: (0, partial(shown, Moment))}
        for place, (aggregate, scalar) in enumerate(
            zip(self.aggregates, self.scalars, strict=True), 1
        ):
            fields[aggregate.name] = place, partial(shown, scalar.show)

        def lift(update: Update) -> tuple[Any, ...]:
            time, *values = update
            return (
                time,
                *[lift((time, value)) for lift, value in zip(lifts, values, strict=True)],
            )

        def combine(older: tuple[Any, ...], newer: tuple[Any, ...]) -> tuple[Any, ...]:
            states = zip(combines, older[1:], newer[1:], strict=True)
            return (newer[0], *[join(a, b) for join, a, b in states])

        return Monoid(
            "policy window",
            identity=(None, *[part.identity for part in parts]),
            lift=lift,
            combine=combine,
            lower=partial(Record, fields),
            addends=self._addends(parts),
            peak=self._peak(parts),
        )

    def _addends(self, parts: Sequence[Monoid[Any, Any, Any]]) -> dict[str, Addend]:
        """What adds up in an update; for the sake of the rest, the number of updates."""
        found = {}
        for place, (aggregate, part) in enumerate(zip(self.aggregates, parts, strict=True), 1):
            for name, addend in part.addends.items():
                label = aggregate.name if len(part.addends) == 1 else f"{aggregate.name}.{name}"
                found[label] = replace(addend, read=partial(_read_place, place, addend.read))
        if found and not all(part.addends for part in parts):
            return with_updates(found)
        return found

    def _peak(self, parts: Sequence[Monoid[Any, Any, Any]]) -> Callable[[Any], Any] | None:
        """That of the aggregate that picks the greatest or the least number, if just one does."""
        peaks = [
            partial(_read_place, place, part.peak)
            for place, (measure, part) in enumerate(zip(self.measures, parts, strict=True), 1)
            if part.peak is not None and isinstance(measure.result_type, NumericType)
        ]
        return peaks[0] if len(peaks) == 1 else None

    def make_window(self) -> Amta[Any, Any, Any] | ApproximateWindow[Any, Any, Any]:
        """An empty window of one key, in memory."""
        if self.approximate:
            return ApproximateWindow(self.monoid, self.approximate)
        return Amta(self.monoid)

    @property
    def schema(self) -> StructType:
        """What results look like."""
        return self._schema(self.keys.fields)

    @property
    def carried_schema(self) -> StructType:
        """The same while they are Arrow."""
        return self._schema(self.keys.carried)

    def _schema(self, keys: list[StructField]) -> StructType:
        results = [StructField(measure.name, measure.result_type) for measure in self.measures]
        if self.bounded:
            results.append(StructField(WITHIN_BOUND, BooleanType()))
        return StructType([*keys, StructField(self.time, self.time_type, False), *results])

    def tabulate(
        self,
        keys: Sequence[Hashable],
        codes: Any,
        times: Any,
        states: Sequence[Any],
        certain: Sequence[bool | None],
    ) -> pa.Table:
        """A row of results for each state: that of the window of key `codes[i]` at `times[i]`."""
        schema = to_arrow_schema(self.carried_schema, timezone="UTC")
        if not len(states):
            return schema.empty_table()
        known = [self.monoid.identity if state is HOLE else state for state in states]
        places = pa.array(np.asarray(codes, np.int64))
        moments = pa.array(np.asarray(times, np.int64))
        columns = [column.take(places) for column in self.keys.decode(keys)]
        columns.append(moments.cast(schema.field(len(columns)).type))
        for place, scalar in enumerate(self.scalars, 1):
            columns.append(scalar.write([state[place] for state in known]))
        if self.bounded:
            columns.append(pa.array(certain, pa.bool_()))
        return pa.table(columns, schema=schema)


def _read_place(place: int, read: Callable[[Any], Any], state: Sequence[Any]) -> Any:
    return read(state[place])


# A policy in words

_PLAIN = (bool, int, float, str, Decimal, timedelta, type(None))
_DEEPEST: Final = 4
"""How far predicates are followed into those they are made of."""


def _describe(policy: Policy) -> str:
    if policy.newest is not None:
        return f"last({policy.newest})"
    told = [
        _name(function, _DEEPEST)
        for function in (policy.window_invariant, policy.eviction_invariant)
        if function is not None
    ]
    return " or ".join(told) + ("" if policy.keep_newest else " (may be empty)")


def _name(function: Any, deep: int) -> str:
    """The name of a predicate with what it was made with, as far as that is plain."""
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    name = name.replace(".<locals>", "").replace(".<lambda>", "")
    cells = getattr(function, "__closure__", None)
    if not cells or not deep:
        return name
    told = []
    for free, cell in zip(function.__code__.co_freevars, cells, strict=True):
        content = cell.cell_contents
        if isinstance(content, _PLAIN):
            told.append(f"{free}={content!r}")
        elif callable(content):
            told.append(f"{free}={_name(content, deep - 1)}")
    return f"{name}({', '.join(told)})"
