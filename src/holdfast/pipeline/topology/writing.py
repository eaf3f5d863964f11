"""A topology as TOML: what differs from the defaults, in the order of the reference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.config.settings import ByName, Inline, One, Steps, settings_of
from holdfast.pipeline.topology.stages import STEPS, Step

if TYPE_CHECKING:
    from holdfast.pipeline.topology.topology import Topology


_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def write_topology(topology: Topology) -> str:
    parts = ["\n".join(_assignments(_values(topology)))]
    for name, setting in settings_of(type(topology)).items():
        value = getattr(topology, name)
        match setting.kind.shape:
            case One() if value is not None:
                parts.append(_table(name, value))
            case ByName():
                parts += [_table(f"{name}.{key}", table) for key, table in value.items()]
    return "\n\n".join(parts) + "\n"


def write_value(value: Any) -> str:
    """A value in TOML, on one line."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _text(value)
        case Mapping():
            inner = ", ".join(_assignments(value))
            return f"{{ {inner} }}" if inner else "{}"
        case Sequence():
            return f"[{', '.join(map(write_value, value))}]"
        case _:
            return repr(value)


def write_step(step: Step) -> str:
    """A step of a stage in TOML."""
    return write_value(_step(step, STEPS))


def word_of(table: Any, tables: Mapping[str, type]) -> str:
    """The word by which a table is chosen."""
    return next(word for word, each in tables.items() if each is type(table))


def _table(name: str, table: Any) -> str:
    return "\n".join([f"[{name}]", *_assignments(_values(table))])


def _assignments(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        key = name if _BARE_KEY.fullmatch(name) else _text(name)
        if name == "steps" and isinstance(value, list) and value:
            lines = "".join(f"\n  {write_value(step)}," for step in value)
            yield f"{key} = [{lines}\n]"
        else:
            yield f"{key} = {write_value(value)}"


def _values(table: Any) -> dict[str, Any]:
    """The fields of a table for the file, but for those that are tables of their own."""
    values: dict[str, Any] = {}
    for name, setting in settings_of(type(table)).items():
        value = getattr(table, name)
        if not setting.is_required and value == setting.default:
            continue
        match setting.kind.shape:
            case One() | ByName():
                continue
            case Inline(tables):
                values[name] = word_of(value, tables)
                values |= _values(value)
            case Steps() as steps:
                values[name] = [_step(step, steps) for step in value]
            case _:
                values[name] = setting.kind.write(value)
    return values


def _step(step: Any, steps: Steps) -> dict[str, Any]:
    for word, table in steps.nested.items():
        if type(step) is table:
            return {word: _values(step)}
    return _values(step)


def _text(text: str) -> str:
    return '"' + "".join(_sign(sign) for sign in text) + '"'


def _sign(sign: str) -> str:
    if sign in _ESCAPES:
        return _ESCAPES[sign]
    return f"\\u{ord(sign):04X}" if ord(sign) < 32 or ord(sign) == 127 else sign
