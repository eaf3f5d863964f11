"""Expressions in the Common Expression Language, compiled and checked once.

Types are checked when a stream is written, and so is what an expression can cost at most
(`tenants.machine.bounds`). The package that runs them has no way to reach files, the network
or Python: all that an expression can say is a value made of the variables it is given.
"""

from __future__ import annotations

import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import unpack
from typing import Any, Final

import msgspec
import numpy as np
from cel_expr_python import cel

from holdfast.errors import InvalidArgumentError
from holdfast.tenants.machine.bounds import MOST_WORK, Syntax, bound_of_type, check_cost, names_in
from holdfast.tenants.machine.documents import DocumentError, Stream
from holdfast.tenants.machine.settling import WINDOW, ExpressionError
from holdfast.tenants.process.vectors import Vector, vector_of

# The syntax of a compiled expression, read from how the package serializes it.
#
# That is a `cel.expr.CheckedExpr` in an `Any` of Protocol Buffers; only the few fields that say
# what is looped over and called are read here, straight from the wire format: no generated code is
# needed.

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


Types = Mapping[str, Mapping[str, str]]
"""For each input the types of its channels."""

_T = cel.Type
_TYPES: Final = {
    "number": _T.DOUBLE,
    "integer": _T.INT,
    "boolean": _T.BOOL,
    "string": _T.STRING,
    "number[]": _T.List(_T.DOUBLE),
    "integer[]": _T.List(_T.INT),
    "boolean[]": _T.List(_T.BOOL),
    "string[]": _T.List(_T.STRING),
}
_KEPT: Final = ("min", "max", "first", "last", "sum")
"""Aggregates that answer the type they are given."""
_DTYPES: Final = {float: np.float64, bool: np.bool_}
_HAS: Final = re.compile(r"\bhas\s*\(")
MOST_LIFT: Final = 1_000
"""Steps to read one update into an aggregate: there are many of them."""
MOST_OF_STREAM: Final = 2_000_000
CALL: Final = 100
"""Steps to begin and end an expression, however short."""
MOST_COMPILED: Final = 10_000
"""Streams whose expressions a process keeps."""

_HINTS: Final = {
    "found no matching overload": "numbers are written 2.0, integers 2; double(x) makes a number",
    "undeclared reference": "inputs are read as INPUT.CHANNEL",
    "recursion": "divide it among several channels or streams",
}


_FUNCTIONS: Final[dict[str, tuple[int, Callable[..., float]]]] = {
    "pow": (2, math.pow),
    "sqrt": (1, math.sqrt),
    "exp": (1, math.exp),
    "ln": (1, math.log),
    "abs": (1, abs),
    "floor": (1, lambda x: float(math.floor(x))),
    "ceil": (1, lambda x: float(math.ceil(x))),
    "round": (1, lambda x: float(round(x))),
    "min": (2, min),
    "max": (2, max),
    "sin": (1, math.sin),
    "cos": (1, math.cos),
    "atan2": (2, math.atan2),
}
"""All are of numbers: how many, and what runs them."""
_RUNNING: Final = {name: run for name, (_, run) in _FUNCTIONS.items()}


def _declared(name: str, count: int, run: Callable[..., float]) -> Any:
    overload = cel.Overload(f"{name}_{count}", _T.DOUBLE, [_T.DOUBLE] * count, False, run)
    return cel.FunctionDecl(name, [overload])


_DECLARED: Final = [_declared(name, *each) for name, each in _FUNCTIONS.items()]


@dataclass(frozen=True)
class _Program:
    place: str
    expression: Any
    variables: frozenset[str]
    type: str
    work: int
    vector: Vector | None
    """For many updates at once, if that can be."""

    def run(self, scope: Mapping[str, Any]) -> Any:
        data = {name: scope[name] for name in self.variables if name in scope}
        try:
            result = self.expression.eval(data=data)
        except (RuntimeError, ValueError, MemoryError, OverflowError) as error:
            raise ExpressionError(f"{self.place}: {_first_line(error)}") from None
        if result.type() == _T.ERROR:
            raise ExpressionError(f"{self.place}: {_first_line(result.value())}")
        return result.plain_value()

    def columns(self, given: Mapping[str, list[Any]], count: int) -> list[Any]:
        """For values of many updates; raises if any fails, or if it asks for anything but them."""
        names = sorted(self.variables)
        if not names:
            return [self.run({})] * count
        if self.vector is not None:
            arrays: dict[str, Any] = {
                name: np.array(given[name], _DTYPES[type(given[name][0])]) for name in names
            }
            with np.errstate(all="ignore"):
                made: list[Any] = self.vector(arrays).tolist()
            return made
        rows = zip(*(given[name] for name in names), strict=True)
        return [self.run(dict(zip(names, row, strict=True))) for row in rows]


class Compiled:
    """A calculation of `tenants.machine.settling`."""

    def __init__(self, programs: Mapping[str, _Program], stream: Stream) -> None:
        self._filter = programs.get("filter")
        self._group = programs.get("group")
        self._channels = {name: programs[f"channels.{name}"] for name in stream.channels}
        self._lifts = {
            name: programs.get(f"aggregate.fields.{name}")
            for name in (stream.aggregate.fields if stream.aggregate else ())
        }
        self._calls = [
            (call.action, programs.get(f"actions.{number}"))
            for number, call in enumerate(stream.actions)
        ]
        self.work = sum(CALL + program.work for program in programs.values())
        self.lifting = sum(CALL + program.work for program in self._lifts.values() if program)

    def passes(self, scope: Mapping[str, Any]) -> bool:
        return self._filter is None or bool(self._filter.run(scope))

    def key(self, scope: Mapping[str, Any]) -> str:
        assert self._group is not None
        return str(self._group.run(scope))

    def lift(self, name: str, scope: Mapping[str, Any]) -> Any:
        program = self._lifts[name]
        return 1 if program is None else program.run(scope)

    def values(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        return {name: program.run(scope) for name, program in self._channels.items()}

    def columns(
        self, inputs: Mapping[str, Mapping[str, list[Any]]], count: int
    ) -> dict[str, list[Any]]:
        given = {
            f"{alias}.{name}": column
            for alias, columns in inputs.items()
            for name, column in columns.items()
        }
        return {name: program.columns(given, count) for name, program in self._channels.items()}

    def calls(self, scope: Mapping[str, Any]) -> Sequence[str]:
        return [action for action, when in self._calls if when is None or when.run(scope)]


class Broken:
    """A stream whose inputs have changed, so that it cannot be calculated any more."""

    work = 1
    lifting = 1

    def __init__(self, message: str) -> None:
        self._message = message

    def passes(self, scope: Mapping[str, Any]) -> bool:
        raise ExpressionError(self._message)

    def key(self, scope: Mapping[str, Any]) -> str:
        raise ExpressionError(self._message)

    def lift(self, name: str, scope: Mapping[str, Any]) -> Any:
        raise ExpressionError(self._message)

    def values(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        raise ExpressionError(self._message)

    def calls(self, scope: Mapping[str, Any]) -> Sequence[str]:
        raise ExpressionError(self._message)

    def columns(
        self, inputs: Mapping[str, Mapping[str, list[Any]]], count: int
    ) -> dict[str, list[Any]]:
        raise ExpressionError(self._message)


class _Known:
    """What was compiled last: many streams say the same of other inputs. Threads share it."""

    def __init__(self) -> None:
        self._found: OrderedDict[bytes, Compiled | DocumentError] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, stream: Stream, types: Types) -> Compiled | DocumentError:
        key = _ENCODER.encode(
            (
                stream.channels,
                stream.filter,
                stream.group,
                stream.aggregate,
                stream.actions,
                {alias: dict(channels) for alias, channels in types.items()},
            )
        )
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
                return found
        try:
            found = _compiled(stream, types)
        except DocumentError as error:
            found = error
        with self._lock:
            self._found[key] = found
            if len(self._found) > MOST_COMPILED:
                self._found.popitem(last=False)
        return found


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_known: Final = _Known()


def compile_stream(stream: Stream, types: Types) -> Compiled:
    """Raises `DocumentError` that names the expression and what is wrong with it."""
    found = _known.get(stream, types)
    if isinstance(found, DocumentError):
        raise DocumentError(str(found))
    return found


def compiled_or_broken(stream: Stream, types: Types) -> Compiled | Broken:
    """Of a stream that could be compiled when it was written."""
    found = _known.get(stream, types)
    if isinstance(found, DocumentError):
        return Broken(f"an input has changed: {found}")
    return found


def _compiled(stream: Stream, types: Types) -> Compiled:
    variables = _variables(types)
    scope = _Scope(variables)
    programs: dict[str, _Program] = {}

    def add(
        place: str, source: str, wanted: str | None, scope: _Scope, most: int = MOST_WORK
    ) -> str:
        program = _compile(place, source, wanted, scope, most)
        programs[place] = program
        return program.type

    if stream.group is not None:
        add("group", stream.group, "string", scope)
    if stream.aggregate is not None:
        own = _Scope(_variables({stream.aggregate.input: types[stream.aggregate.input]}))
        added = {f"{WINDOW}._count": "integer"}
        for name, field in stream.aggregate.fields.items():
            place, kind = f"aggregate.fields.{name}", "integer"
            if field.of is not None:
                kind = add(place, field.of, None, own, MOST_LIFT)
            elif field.function != "count":
                raise DocumentError(f"{place}: of is missing; say what the {field.function} is of")
            added[f"{WINDOW}.{name}"] = _answer(place, field.function, kind)
        scope = _Scope({**variables, **added})
    if stream.filter is not None:
        add("filter", stream.filter, "boolean", scope)
    for name, channel in stream.channels.items():
        if channel.expression is None:
            raise DocumentError(f"channels.{name}: expression is missing; the stream has inputs")
        add(f"channels.{name}", channel.expression, channel.type, scope)
    for number, call in enumerate(stream.actions):
        if call.when is not None:
            add(f"actions.{number}", call.when, "boolean", scope)
    if sum(program.work for program in programs.values()) > MOST_OF_STREAM:
        raise DocumentError(
            f"its expressions may take more than {MOST_OF_STREAM:,} steps together; divide it"
        )
    return Compiled(programs, stream)


def _variables(types: Types) -> dict[str, str]:
    found: dict[str, str] = {}
    for alias, channels in types.items():
        found |= {f"{alias}.{name}": kind for name, kind in channels.items()}
        found |= {f"{alias}._present": "boolean", f"{alias}._time": "integer"}
        found |= {f"{alias}._key": "string", f"{alias}._stream": "string"}
    return found


class _Scope:
    """What an expression may name; made once for all expressions of a stream."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.types = variables
        self.bounds = {name: bound_of_type(kind) for name, kind in variables.items()}
        self.environment = cel.NewEnv(
            variables={name: _TYPES[kind] for name, kind in variables.items()},
            functions=_DECLARED,
        )


def _compile(place: str, source: str, wanted: str | None, scope: _Scope, most: int) -> _Program:
    if _HAS.search(source):
        # On a qualified name the package answers the value itself.
        raise DocumentError(f"{place}: has() does not work here; ask INPUT._present instead")
    try:
        expression = scope.environment.compile(source)
    except (RuntimeError, ValueError) as error:
        raise DocumentError(f"{place}: {_explained(error)}") from None
    kind = next((k for k, t in _TYPES.items() if t == expression.return_type()), None)
    if kind is None or (wanted is not None and kind != wanted):
        given = kind or expression.return_type().name()
        raise DocumentError(f"{place}: gives {given}, not {wanted or 'a value of a channel'}")
    if wanted is None and kind.endswith("[]"):
        raise DocumentError(f"{place}: gives {kind}; an aggregate is over single values")
    try:
        syntax = read_syntax(expression.serialize())
        work = check_cost(syntax, scope.bounds, most)
    except InvalidArgumentError as error:
        raise DocumentError(f"{place}: {error}") from None
    vector = vector_of(syntax, scope.types, _RUNNING)
    return _Program(place, expression, names_in(syntax) & set(scope.bounds), kind, work, vector)


def _answer(place: str, function: str, kind: str) -> str:
    """The type of an aggregate of values of this type."""
    if function == "count":
        return "integer"
    if function in ("any", "all"):
        wanted: tuple[str, ...] = ("boolean",)
    elif function in ("first", "last"):
        wanted = ("number", "integer", "boolean", "string")
    elif function in ("min", "max"):
        wanted = ("number", "integer", "string")
    else:
        wanted = ("number", "integer")
    if kind not in wanted:
        raise DocumentError(
            f"{place}: there is no {function} of {kind}; give {' or '.join(wanted)}"
        )
    return kind if function in (*_KEPT, "any", "all", "range") else "number"


def _explained(error: Exception) -> str:
    text = str(error).removeprefix("INVALID_ARGUMENT: ").strip()
    lines = [line.strip() for line in text.splitlines() if "ERROR" in line] or [text]
    said = "; ".join(line.removeprefix("ERROR: <input>:") for line in lines)[:500]
    hint = next((hint for sign, hint in _HINTS.items() if sign in text), None)
    return f"{said} ({hint})" if hint else said


def _first_line(error: object) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__
