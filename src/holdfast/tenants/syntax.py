"""The syntax of a compiled expression, read from how the package serializes it.

That is a `cel.expr.CheckedExpr` in an `Any` of Protocol Buffers; only the few fields that say what
is looped over and called are read here, straight from the wire format: no generated code is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.composition.bounds import Syntax

__all__ = ["read_syntax"]

_ANY_VALUE = 2
_CHECKED_EXPR = 4
_BOOLEAN, _DOUBLE = 2, 5
_CONSTANT, _NAME, _SELECT, _CALL, _LIST, _STRUCT, _LOOP = 3, 4, 5, 6, 7, 8, 9


def read_syntax(serialized: bytes) -> Syntax:
    checked = _only(serialized, _ANY_VALUE)
    return _expression(_only(checked, _CHECKED_EXPR))


def _expression(data: bytes) -> Syntax:
    for number, value in _fields(data):
        if number in _READERS and isinstance(value, bytes):
            return _READERS[number](value)
    raise InvalidArgumentError("expression: has a part that is not known")


def _constant(data: bytes) -> Syntax:
    size, found = 1, None
    for number, value in _fields(data):
        if isinstance(value, int):
            found = bool(value) if number == _BOOLEAN else None
        elif number == _DOUBLE:
            found = unpack("<d", value)[0]
        else:
            size = max(size, len(value))
    return Syntax("constant", size=size, value=found)


def _name(data: bytes) -> Syntax:
    return Syntax("name", _only(data, 1).decode())


def _select(data: bytes) -> Syntax:
    found = dict(_fields(data))
    return Syntax("select", _text(found.get(2)), (_expression(_bytes(found.get(1))),))


def _call(data: bytes) -> Syntax:
    name, target, arguments = "", [], []
    for number, value in _fields(data):
        match number:
            case 1:
                target = [_expression(_bytes(value))]
            case 2:
                name = _text(value)
            case 3:
                arguments.append(_expression(_bytes(value)))
    return Syntax("call", name, (*target, *arguments))


def _list(data: bytes) -> Syntax:
    return Syntax(
        "list",
        "",
        tuple(_expression(v) for n, v in _fields(data) if n == 1 and isinstance(v, bytes)),
    )


def _struct(data: bytes) -> Syntax:
    if any(number == 1 and value for number, value in _fields(data)):
        raise InvalidArgumentError("expression: makes a message; only maps and lists can be made")
    children = []
    for number, entry in _fields(data):
        if number == 2:
            children += [_expression(_bytes(v)) for n, v in _fields(_bytes(entry)) if n in (3, 4)]
    return Syntax("map", "", tuple(children))


def _loop(data: bytes) -> Syntax:
    found = dict(_fields(data))
    children = tuple(_expression(_bytes(found.get(number))) for number in (2, 4, 5, 6, 7))
    return Syntax(
        "loop",
        "",
        children,
        variables=(_text(found.get(1)), _text(found.get(3)), _text(found.get(8))),
    )


_READERS = {
    _CONSTANT: _constant,
    _NAME: _name,
    _SELECT: _select,
    _CALL: _call,
    _LIST: _list,
    _STRUCT: _struct,
    _LOOP: _loop,
}


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, data[at : at + 8]
                at += 8
            case 2:
                size, at = _varint(data, at)
                yield tag >> 3, data[at : at + size]
                at += size
            case 5:
                yield tag >> 3, 1
                at += 4
            case _:
                raise InvalidArgumentError("expression: cannot be read")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7


def _only(data: bytes, wanted: int) -> bytes:
    for number, value in _fields(data):
        if number == wanted and isinstance(value, bytes):
            return value
    raise InvalidArgumentError("expression: has a part that is not known")


def _bytes(value: bytes | int | None) -> bytes:
    return value if isinstance(value, bytes) else b""


def _text(value: bytes | int | None) -> str:
    return _bytes(value).decode()
