"""Codec of states: to bytes for a store and back, equal to the bit.

Used by `writer` and `stored`. A record is sealed with a version and a checksum, so that bit rot is
found and not aggregated. What is read back can build data and nothing else: it never runs code.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from io import BytesIO
from types import BuiltinFunctionType, FunctionType
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import numpy as np

from holdfast.errors import InvalidArgumentError, InvalidValueError, StoreCorruptError

__all__ = ["Codec", "StateCodec", "seal", "unseal"]

VERSION = 1
_HEAD = 5

_PLAIN = (complex, Decimal, Fraction, date, datetime, time, timedelta, timezone, ZoneInfo)
_NUMPY = (np.ndarray, np.dtype)
_OWN = "holdfast.windows."

_REMEDY = (
    "name it in StateCodec(allow=[...]), if its pickles are data only, "
    "or pass a codec of your own with encode(value) and decode(data)"
)

Named = type[Any] | Callable[..., Any]


class Codec(Protocol):
    """Turns states into bytes and back. Two threads may use it at the same time.

    A value is a state, or tuples and lists of states, `HOLE`, None, numbers and strings.
    """

    def encode(self, value: Any) -> bytes:
        """Raises InvalidValueError if `decode` could not give the value back."""

    def decode(self, data: bytes) -> Any:
        """Raises StoreCorruptError if `encode` cannot have written this."""


class StateCodec:
    """Plain Python values, NumPy arrays and scalars, and the states of the ready-made monoids.

    `allow` names further classes, and the functions their `__reduce__` calls, if any.
    """

    def __init__(self, allow: Iterable[Named] = ()) -> None:
        self._allowed: dict[tuple[str, str], Named] = _numpy_builders()
        for named in (*_PLAIN, *_NUMPY, *allow):
            if not isinstance(named, type | FunctionType | BuiltinFunctionType):
                raise InvalidArgumentError(
                    f"StateCodec: allow has {named!r}; give classes and functions"
                )
            self._allowed[_name(named)] = named

    def encode(self, value: Any) -> bytes:
        stream = BytesIO()
        try:
            _Pickler(stream, self._may_save).dump(value)
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidValueError(f"a state cannot be stored ({error}); {_REMEDY}") from error
        return stream.getvalue()

    def decode(self, data: bytes) -> Any:
        try:
            return _Unpickler(BytesIO(data), self._find).load()
        except StoreCorruptError:
            raise
        # A pickle that was not written by `encode` can fail in any way.
        except Exception as error:
            raise StoreCorruptError(f"a state cannot be read ({error}); {_REMEDY}") from error

    def _may_save(self, value: Any) -> bool:
        if isinstance(value, type | FunctionType | BuiltinFunctionType):
            return self._allowed.get(_name(value)) is value or _is_own_data(value)
        kind = type(value)
        return self._may_save(kind) or isinstance(value, np.generic | np.dtype)

    def _find(self, module: str, name: str) -> Named | None:
        return self._allowed.get((module, name))


class _Pickler(pickle.Pickler):
    def __init__(self, stream: BytesIO, may_save: Callable[[Any], bool]) -> None:
        super().__init__(stream, protocol=5)
        self._may_save = may_save

    # Called for everything that is not of one of pickle's own types, names included.
    def reducer_override(self, value: Any) -> Any:
        if type(value) is ZoneInfo and value.key:
            # Its own pickles call `getattr`.
            return ZoneInfo, (value.key,)
        if self._may_save(value):
            # Some versions of Python pickle members by `getattr`, which is not to be decoded.
            return (type(value), (value.value,)) if isinstance(value, Enum) else NotImplemented
        named = value if isinstance(value, type | FunctionType) else type(value)
        raise InvalidValueError(
            f"a state holds {named.__module__}.{named.__qualname__}, "
            f"which a store cannot give back; {_REMEDY}"
        )


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: BytesIO, find: Callable[[str, str], Named | None]) -> None:
        super().__init__(stream)
        self._find = find

    def find_class(self, module: str, name: str) -> Any:
        found = self._find(module, name)
        if found is None and module.startswith(_OWN):
            own = super().find_class(module, name)
            found = own if _is_own_data(own) else None
        if found is None:
            raise StoreCorruptError(f"a record asks for {module}.{name}; {_REMEDY}")
        return found


def seal(payload: bytes) -> bytes:
    """A record: version, checksum, payload."""
    return bytes([VERSION]) + zlib.crc32(payload).to_bytes(4, "big") + payload


def unseal(record: bytes) -> bytes:
    """The payload of a record; raises StoreCorruptError if it is not as it was sealed."""
    if len(record) < _HEAD:
        raise StoreCorruptError(f"the record has {len(record)} bytes, fewer than its head")
    if record[0] != VERSION:
        raise StoreCorruptError(
            f"the record has format {record[0]}, this version of Holdfast reads {VERSION}"
        )
    payload = record[_HEAD:]
    if zlib.crc32(payload) != int.from_bytes(record[1:_HEAD], "big"):
        raise StoreCorruptError("the record's checksum is wrong")
    return payload


def _name(named: Any) -> tuple[str, str]:
    return named.__module__, named.__qualname__


def _is_own_data(named: Any) -> bool:
    """Whether this is a class of ours that holds data only."""
    return (
        isinstance(named, type)
        and named.__module__.startswith(_OWN)
        and (issubclass(named, Enum | tuple) or is_dataclass(named))
    )


def _numpy_builders() -> dict[tuple[str, str], Named]:
    """The functions that NumPy's own pickles name, found by looking at such pickles."""
    samples = [np.zeros(1), np.zeros((2, 2))[:, 0], np.array([None]), np.float64(0)]
    builders: list[Any] = [sample.__reduce_ex__(5)[0] for sample in samples]
    return {_name(builder): builder for builder in builders}
