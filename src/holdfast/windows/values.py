"""Values of the ready-made monoids: the checks and conversions behind their lifts.

Used by `monoids` and `sketches`. NumPy scalars become Python's own, so that an int64 cannot
overflow. What has no meaning for a monoid is refused here, before a window has changed.
"""

from __future__ import annotations

import math
import operator
from datetime import date
from enum import Enum
from reprlib import repr as shorten
from typing import Any, Final, NoReturn

import numpy as np

from holdfast.errors import InvalidArgumentError, InvalidValueError, TimeOrderError

__all__ = [
    "ABOVE",
    "BELOW",
    "Extreme",
    "check_time_order",
    "itself",
    "none_if",
    "to_finite_float",
    "to_float",
    "to_integer",
    "to_number",
    "to_ordered",
    "to_plain",
    "to_time",
]


def itself(state: Any) -> Any:
    """The `lower` of a state that is its own answer."""
    return state


def none_if(nothing: Any, state: Any) -> Any:
    """The state, or None where it is the identity `nothing`."""
    return None if state is nothing else state


class Extreme(Enum):
    """The type of `ABOVE` and `BELOW`."""

    ABOVE = "above"
    BELOW = "below"

    # NumPy scalars must leave a comparison with a member to the member.
    __array_ufunc__ = None

    def __lt__(self, other: object) -> bool:
        return self is Extreme.BELOW and other is not self

    def __gt__(self, other: object) -> bool:
        return self is Extreme.ABOVE and other is not self

    def __repr__(self) -> str:
        return self.name


ABOVE: Final = Extreme.ABOVE
"""Greater than everything else: the identity of a minimum."""

BELOW: Final = Extreme.BELOW
"""Less than everything else: the identity of a maximum."""


_FLOATS = (float, np.floating)
_INTS = (int, np.integer, np.bool_)
_NUMPY_NUMBERS = (np.number, np.bool_)
# A duration, which NumPy counts among its integers and its type stubs do not.
_DURATION: type = np.timedelta64


def to_integer(what: str, argument: Any) -> int:
    """An argument that counts something as Python's own int, whatever integer it is."""
    try:
        return int(operator.index(argument))
    except TypeError:
        raise InvalidArgumentError(f"{what}: {shorten(argument)} is no integer") from None


def to_plain(value: Any) -> Any:
    """A NumPy number as Python's own; anything else as it is."""
    if isinstance(value, _NUMPY_NUMBERS) and not isinstance(value, _DURATION):
        return value.item()
    return value


def to_number(monoid: str, value: Any) -> int | float:
    """An exact int or a float; NaN and the infinities pass."""
    if isinstance(value, _FLOATS):
        return float(value)
    if isinstance(value, _INTS) and not isinstance(value, _DURATION):
        return int(value)
    raise InvalidValueError(
        f"{monoid}: {shorten(value)} is not an int or a float; filter it out or convert it, "
        f"for instance with {monoid}.over(float)"
    )


def to_float(monoid: str, value: Any) -> float:
    """A float; NaN and the infinities pass."""
    try:
        return float(to_number(monoid, value))
    except OverflowError:
        raise InvalidValueError(
            f"{monoid}: {shorten(value)} is beyond the range of a float; scale the values down"
        ) from None


def to_finite_float(monoid: str, value: Any) -> float:
    """A float that is neither NaN nor infinite."""
    number = to_float(monoid, value)
    if math.isfinite(number):
        return number
    if math.isnan(number):
        _refuse_nan(monoid)
    raise InvalidValueError(
        f"{monoid}: {number} is not finite; filter it out or map it to a bound of your own"
    )


def to_ordered(monoid: str, value: Any) -> Any:
    """Any value that has a place in an order with its like."""
    if type(value) is int or (type(value) is float and value == value):
        return value
    plain = to_plain(value)
    try:
        itself = bool(plain == plain)
        if itself:
            plain < plain  # noqa: B015
    except (TypeError, ValueError, ArithmeticError):
        raise InvalidValueError(
            f"{monoid}: {shorten(value)} cannot be ordered; filter it out or map it to a number, "
            "a string or another value that compares with <"
        ) from None
    if not itself:
        _refuse_nan(monoid)
    return plain


def to_time(value: Any) -> Any:
    """A point in time: a finite int or float, a date, a datetime or a NumPy datetime64."""
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return value
    plain = to_plain(value)
    if isinstance(plain, int | float):
        return plain if isinstance(plain, int) else to_finite_float("time", plain)
    if not isinstance(plain, date | np.datetime64):
        raise InvalidValueError(
            f"time: {shorten(value)} is no time; give a number or a datetime, for instance with "
            "time.over(datetime.fromisoformat)"
        )
    return to_ordered("time", plain)


def check_time_order(newest: Any, incoming: Any) -> None:
    """Refuse a time that is before the newest one in the window."""
    try:
        early = bool(incoming < newest)
    except TypeError:
        raise InvalidValueError(
            f"time: {incoming!r} cannot be compared with {newest!r}, the newest in the window; "
            "use one kind of time, datetimes all with or all without a time zone"
        ) from None
    if early:
        raise TimeOrderError(
            f"time: {incoming!r} is before {newest!r}, the newest in the window; sort the updates "
            "by time before they enter, or leave the late ones out"
        )


def _refuse_nan(monoid: str) -> NoReturn:
    raise InvalidValueError(
        f"{monoid}: NaN has no place in an order; filter it out or map it to another value"
    )
