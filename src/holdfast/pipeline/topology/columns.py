"""Columns of a stream: names, and types in Spark's DDL, read without Spark.

Rows are put into one order and hashed on every replica, so only types whose values have an order
are taken: no maps, no variants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from holdfast.config.problems import did_you_mean, show
from holdfast.config.settings import Fault, Refused, is_not
from holdfast.pipeline.machine.tuples import STIME

_SIMPLE: Final = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
_DECIMAL: Final = {"decimal", "dec", "numeric"}
_MOST_DIGITS: Final = 38
_DEEPEST: Final = 32

_TOKEN: Final = re.compile(r"\s*(?:([A-Za-z_]\w*)|`((?:[^`]|``)+)`|([0-9]{1,3})|([<>(),:]))", re.A)


TYPES: Final = (*_SIMPLE, "decimal(p,s)", "array<...>", "struct<name:...>")


class Column(NamedTuple):
    """A column of a stream."""

    name: str
    type: str
    """In Spark's DDL, one spelling for each: `bigint`, never `long`."""


def check_column(value: Any) -> str:
    """The name of a column that a user may have."""
    if not isinstance(value, str):
        raise is_not(value, "the name of a column")
    if not value.strip() or not value.isprintable():
        raise Refused.because(
            f"{show(value)} is no name for a column", "write letters, digits and underscores"
        )
    if value.lower() == STIME:
        raise Refused.because(
            f"{show(value)} is reserved: every stream has the event time in it",
            "choose another name for the column",
        )
    return value


def read_columns(value: Any) -> tuple[str, ...]:
    """A list of different columns."""
    if not isinstance(value, list | tuple):
        raise is_not(value, "a list of columns")
    _check_each((f" #{number}", name) for number, name in enumerate(value, 1))
    _check_different(value)
    return tuple(value)


def read_schema(value: Any) -> tuple[Column, ...]:
    """The columns of a schema, given as a mapping or as pairs."""
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list | tuple) or not all(
        isinstance(pair, tuple) and len(pair) == 2 for pair in pairs
    ):
        raise is_not(value, "a schema")
    if not pairs:
        raise Refused.because("has no columns")
    _check_each((f".{name}", name) for name, _ in pairs)
    _check_different([name for name, _ in pairs])
    columns, faults = [], []
    for name, type_ in pairs:
        try:
            columns.append(Column(name, read_type(type_)))
        except Refused as refused:
            faults += [fault._replace(part=f".{name}") for fault in refused.faults]
    if faults:
        raise Refused(*faults)
    return tuple(columns)


def _check_each(names: Iterable[tuple[str, Any]]) -> None:
    faults: list[Fault] = []
    for part, name in names:
        try:
            check_column(name)
        except Refused as refused:
            faults += [fault._replace(part=part) for fault in refused.faults]
    if faults:
        raise Refused(*faults)


def _check_different(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise Refused.because(
                f"has the column {show(name)} twice (case does not count)", "leave one of them out"
            )
        seen.add(name.lower())


def read_type(value: Any) -> str:
    """A type in one spelling."""
    if not isinstance(value, str):
        raise is_not(value, "a type of Spark's DDL, such as 'double'")
    return _Types(value).read()


class _Types:
    """Reads one type, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> str:
        found = self._type(0)
        if self._text[self._at :].strip():
            raise self._refused()
        return found

    def _refused(self, remedy: str = "write a type of Spark's DDL, such as 'double'") -> Refused:
        return Refused.because(f"{show(self._text)} is no type", remedy)

    def _next(self) -> str:
        """The next token; a name in backticks keeps them."""
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise self._refused()
        self._at = match.end()
        return match.group().strip()

    def _peek(self) -> str:
        at = self._at
        try:
            return self._next()
        except Refused:
            return ""
        finally:
            self._at = at

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise self._refused()

    def _type(self, depth: int) -> str:
        if depth > _DEEPEST:
            raise self._refused("nest types less deeply")
        word = self._next().lower()
        if word in _SIMPLE:
            return _SIMPLE[word]
        if word in _DECIMAL:
            return self._decimal()
        if word == "array":
            self._expect("<")
            found = f"array<{self._type(depth + 1)}>"
            self._expect(">")
            return found
        if word == "struct":
            return self._struct(depth)
        if word == "map":
            raise self._refused(
                "rows with maps have no order; use array<struct<key:..., value:...>>"
            )
        raise Refused.because(
            f"{show(self._text)} is no type{did_you_mean(word, TYPES)}",
            f"there are {', '.join(TYPES)}",
        )

    def _decimal(self) -> str:
        digits, places = 10, 0
        if self._peek() == "(":
            self._next()
            digits = self._number()
            if self._peek() == ",":
                self._next()
                places = self._number()
            self._expect(")")
        if not places <= digits <= _MOST_DIGITS or digits == 0:
            raise self._refused(f"a decimal has 1 to {_MOST_DIGITS} digits, its places among them")
        return f"decimal({digits},{places})"

    def _number(self) -> int:
        token = self._next()
        if not token.isdigit():
            raise self._refused()
        return int(token)

    def _struct(self, depth: int) -> str:
        self._expect("<")
        parts: list[str] = []
        names: set[str] = set()
        while True:
            name = self._next()
            if not (name[0] in "`_" or name[0].isalpha()) or name.lower() in names:
                raise self._refused(
                    "name the parts of a struct, each once: struct<a:int, b:string>"
                )
            names.add(name.lower())
            if self._peek() == ":":
                self._next()
            parts.append(f"{name}:{self._type(depth + 1)}")
            match self._next():
                case ",":
                    continue
                case ">":
                    return f"struct<{','.join(parts)}>"
                case _:
                    raise self._refused()
