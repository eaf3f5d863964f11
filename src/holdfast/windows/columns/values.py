"""Values of users as columns, and columns of different types side by side."""

from __future__ import annotations

from collections.abc import Callable
from reprlib import repr as shorten
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgumentError, InvalidValueError
from holdfast.windows.values import to_plain

__all__ = [
    "INT64",
    "Column",
    "align_values",
    "as_array",
    "as_column",
    "as_objects",
    "common",
    "each",
    "is_small",
    "narrow",
]

Column = NDArray[Any]
State = tuple[Column, ...]
"""One or more columns of equal length, a row for each key."""

EXACT: Final = 2**53
"""Up to here a float64 holds every int."""

INT64: Final = np.iinfo(np.int64)


def as_column(values: Any, what: str = "column") -> Column:
    """An array or a sequence as a column, in the narrowest of our types that loses nothing."""
    column = as_array(values, what)
    match column.dtype.kind:
        case "f":
            return column.astype(np.float64, copy=False)
        case "i":
            return column.astype(np.int64, copy=False)
        case "u":
            fits = not len(column) or column.max() <= INT64.max
            return column.astype(np.int64 if fits else object)
        case "b" | "M" | "m":
            return column
        case "O":
            return narrow(column)
        case _:
            return column.astype(object)


def as_array(values: Any, what: str = "column") -> Column:
    """An array as it is, or a sequence as an array of objects."""
    if isinstance(values, np.ndarray) or hasattr(values, "__array__"):
        if isinstance(values, np.ma.MaskedArray):
            raise InvalidValueError(
                f"{what}: is a masked array, whose mask would be lost; leave the masked rows out "
                "or fill them"
            )
        array = np.asarray(values)
    else:
        try:
            # Not np.array: it makes strings of numbers next to a string, and a table of tuples.
            array = np.fromiter(values, dtype=object)
        except TypeError:
            raise InvalidArgumentError(
                f"{what}: {shorten(values)} is neither an array nor a sequence"
            ) from None
    if array.ndim != 1:
        raise InvalidArgumentError(
            f"{what}: has {array.ndim} dimensions; give one value for each row"
        )
    return array


def narrow(column: Column) -> Column:
    values = column.tolist()
    types = set(map(type, values))
    if any(issubclass(kind, np.number | np.bool_) for kind in types):
        values = list(map(to_plain, values))
        types = set(map(type, values))
    if types == {bool}:
        return np.array(values, np.bool_)
    if types and types <= {int, float}:
        try:
            if float not in types:
                return np.array(values, np.int64)
            floats = np.array(values, np.float64)
        except OverflowError:
            return column
        if int not in types or all(abs(value) <= EXACT for value in values if type(value) is int):
            return floats
    return column


def as_objects(column: Column) -> Column:
    if column.dtype.kind in "Mm":
        # astype(object) makes bare ints of nanoseconds.
        return np.fromiter(column, dtype=object, count=len(column))
    return column.astype(object, copy=False)


def each(function: Callable[[Any], Any], column: Column) -> Column:
    """The function's answer for each row, in the narrowest of our types."""
    return narrow(np.frompyfunc(function, 1, 1)(as_objects(column)))


def is_small(whole: Column) -> bool:
    """Whether a float64 holds each of these ints."""
    return not len(whole) or bool(whole.min() >= -EXACT and whole.max() <= EXACT)


def common(older: Column, newer: Column) -> tuple[Column, Column]:
    """Both columns in one type that changes no value."""
    if older.dtype == newer.dtype:
        return older, newer
    kinds = {older.dtype.kind, newer.dtype.kind}
    exact = all(column.dtype.kind != "i" or is_small(column) for column in (older, newer))
    if kinds in ({"M"}, {"m"}, {"b", "i"}) or (kinds <= set("bif") and exact):
        kind = np.promote_types(older.dtype, newer.dtype)
        return older.astype(kind), newer.astype(kind)
    return as_objects(older), as_objects(newer)


def align_values(older: State, newer: State) -> tuple[State, State]:
    pairs = [common(a, b) for a, b in zip(older, newer, strict=True)]
    return tuple([a for a, _ in pairs]), tuple([b for _, b in pairs])
