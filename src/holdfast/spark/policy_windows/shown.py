"""What a policy sees of a window on Spark: times in microseconds, and NULL as a value.

Used by `plan` for the record that a policy's predicates are given.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from typing import Any, Final

__all__ = ["NULL", "Moment", "Null", "shown"]

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
