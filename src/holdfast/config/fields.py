"""Field types that any settings file can use."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar

from holdfast.config.addresses import read_address
from holdfast.config.durations import Span
from holdfast.config.problems import did_you_mean, show
from holdfast.config.settings import Inline, Kind, Refused, is_not
from holdfast.errors import InvalidArgumentError
from holdfast.intervals import parse_interval

Interval = str | timedelta
Item = TypeVar("Item")

_LARGEST: Final = 2**63 - 1
_LONGEST_NAME: Final = 100
"""Names become folders."""


def read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise is_not(value, "a text")
    if not value.strip():
        raise Refused.because("is empty")
    if not value.isprintable():
        raise Refused.because(f"{show(value)} has signs that cannot be printed", "leave them out")
    return value


def matching(pattern: str, what: str, remedy: str, *, hidden: bool = False) -> Kind[str, str]:
    """Text of one form; `hidden`: not to be shown in errors, for it may hold a secret."""
    compiled = re.compile(pattern, re.ASCII)

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise is_not(value, what)
        if not compiled.fullmatch(value):
            shown = "this" if hidden else show(value)
            raise Refused.because(f"{shown} is not {what}", remedy)
        return value

    return Kind(what, read)


def _read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise is_not(value, "true or false")
    return value


def whole(least: int) -> Kind[int, int]:
    """A whole number from `least` on."""
    what = f"a whole number from {least} on"

    def read(value: Any) -> int:
        # A bool is an int to Python, not to us.
        if type(value) is not int:
            raise is_not(value, what)
        if not least <= value <= _LARGEST:
            raise Refused.because(f"{show(value)} is out of range", f"give {what}")
        return value

    return Kind(what, read)


def _read_number(value: Any) -> int | float:
    what = "a number above 0"
    if type(value) not in (int, float):
        raise is_not(value, what)
    if not 0 < value <= _LARGEST:
        raise Refused.because(f"{show(value)} is out of range", f"give {what}")
    return float(value) if isinstance(value, float) else int(value)


def interval(least: str = "1us") -> Kind[Interval, Span]:
    """A span of time that is not below `least`."""
    smallest = parse_interval("least", least)

    def read(value: Any) -> Span:
        if isinstance(value, Span):
            span = value
        elif not isinstance(value, str | timedelta):
            raise Refused.because(f"{show(value)} is no interval", "write a text such as '500ms'")
        else:
            try:
                span = Span(parse_interval("", value))
            except InvalidArgumentError as error:
                raise Refused.because(*str(error).removeprefix(": ").split("; ", 1)) from None
        if span < smallest:
            raise Refused.because(f"{span} is too short", f"give at least {least}")
        return span

    return Kind("an interval", read, str)


def choice(*options: str) -> Kind[str, str]:
    """One of several words."""
    what = "one of " + ", ".join(options)

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in options:
            raise Refused.because(
                f"{show(value)} is not known{did_you_mean(value, options)}", f"give {what}"
            )
        return value

    return Kind(what, read)


def inline(what: str, tables: Mapping[str, type[Item]]) -> Kind[Item, Item]:
    """One of several tables, each named by a word, whose fields stand beside that word."""
    words = ", ".join(tables)

    def read(value: Any) -> Item:
        if type(value) not in tables.values():
            raise Refused.because(
                f"{show(value)} is no {what}{did_you_mean(value, tables)}", f"give one of {words}"
            )
        return value

    return Kind(f"one of {words}", read, shape=Inline(tables))


def listed(
    what: str, read: Callable[[Any], Item], write: Callable[[Item], Any] = lambda item: item
) -> Kind[Iterable[Any], tuple[Item, ...]]:
    """A list that is not empty, of items of one kind."""

    def read_all(value: Any) -> tuple[Item, ...]:
        if not isinstance(value, list | tuple):
            raise is_not(value, what)
        if not value:
            raise Refused.because("is empty")
        items, faults = [], []
        for number, each in enumerate(value, 1):
            try:
                items.append(read(each))
            except Refused as refused:
                faults += [fault._replace(part=f" #{number}") for fault in refused.faults]
        if faults:
            raise Refused(*faults)
        return tuple(items)

    return Kind(what, read_all, lambda kept: [write(item) for item in kept])


def _read_different(value: Any) -> tuple[str, ...]:
    names = listed("a list of names", read_text).read(value)
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise Refused.because(f"has {show(name)} {times} times", "leave all but one of them out")
    return names


TEXT: Final = Kind[str, str]("a text", read_text)
FLAG: Final = Kind[bool, bool]("true or false", _read_flag)
NUMBER: Final = Kind[float, float]("a number above 0", _read_number)
NAME: Final = matching(
    rf"[a-z][a-z0-9_-]{{0,{_LONGEST_NAME - 1}}}",
    "a name",
    f"begin with a letter and use only a-z, 0-9, _ and -, at most {_LONGEST_NAME} of them",
)
NAMES: Final = Kind[Iterable[str], tuple[str, ...]]("a list of names", _read_different, list)
HOST: Final = matching(
    r"[A-Za-z0-9:][A-Za-z0-9._:-]{0,252}", "a host", "use letters, digits, dots and dashes"
)
ADDRESS: Final = Kind[str, str]("an address", read_address)
VARIABLE: Final = matching(
    r"[A-Za-z_][A-Za-z0-9_]*",
    "the name of an environment variable",
    "use letters, digits and underscores; the value itself does not belong into the file",
    hidden=True,
)
