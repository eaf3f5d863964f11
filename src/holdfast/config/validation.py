"""Checks of single fields of settings tables, nested ones included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.config.fields import NAME
from holdfast.config.problems import Problem, did_you_mean, show
from holdfast.config.settings import (
    ByName,
    Inline,
    InList,
    One,
    Refused,
    Steps,
    settings_of,
)


def check_fields(table: Any, place: str = "", prefix: str = "") -> Iterator[Problem]:
    """Problems of single fields of a table and of the tables within it."""
    for name, setting in settings_of(type(table)).items():
        value = getattr(table, name)
        faulty = False
        for part, message in setting.faults(value):
            faulty = True
            yield Problem(place, f"{prefix}{name}{part}", message)
        if faulty or value is None:
            continue
        match setting.kind.shape:
            case One():
                yield from check_fields(value, name, "")
            case Inline():
                yield from check_fields(value, place, prefix)
            case ByName(kind):
                yield from _check_named(value, name, kind)
            case InList(kind):
                yield from _check_listed(value, place, prefix + name, kind)
            case Steps() as steps:
                yield from _check_steps(value, place, prefix + name, steps)


def _check_named(tables: Mapping[Any, Any], place: str, kind: type) -> Iterator[Problem]:
    for name, table in tables.items():
        inner = f"{place}.{name}" if isinstance(name, str) else f"{place}.{show(name)}"
        try:
            NAME.read(name)
        except Refused as refused:
            for fault in refused.faults:
                remedy = fault.remedy or "give a text"
                yield Problem(inner, "", f"{fault.message}; {remedy}")
        if isinstance(table, kind):
            yield from check_fields(table, inner, "")
        else:
            yield Problem(inner, "", _no_table(table, kind))


def _check_listed(tables: tuple[Any, ...], place: str, field: str, kind: type) -> Iterator[Problem]:
    for number, table in enumerate(tables, 1):
        if isinstance(table, kind):
            yield from check_fields(table, place, f"{field} #{number} ")
        else:
            yield Problem(place, f"{field} #{number}", _no_table(table, kind))


def _check_steps(
    tables: tuple[Any, ...], place: str, field: str, steps: Steps
) -> Iterator[Problem]:
    nested = {kind: f"{name}." for name, kind in steps.nested.items()}
    for number, table in enumerate(tables, 1):
        if type(table) in nested or type(table) in steps.flat.values():
            prefix = f"{field} #{number} {nested.get(type(table), '')}"
            yield from check_fields(table, place, prefix)
        else:
            yield Problem(place, f"{field} #{number}", _no_step(table, steps))


def _no_step(value: Any, steps: Steps) -> str:
    known = [*steps.flat, *steps.nested]
    given = list(value) if isinstance(value, Mapping) else []
    words = [word for word in known if word in given]
    if len(words) > 1:
        return f"has {' and '.join(words)}; make steps of their own of them"
    if words:
        table = {**steps.flat, **steps.nested}[words[0]]
        fields = ", ".join(settings_of(table))
        given_as = show(value[words[0]])
        return (
            f"{words[0]} is {given_as}; give a table with {fields} (in Python: a {table.__name__})"
        )
    hint = next(filter(None, (did_you_mean(word, known) for word in given[:10])), "")
    return f"{show(value)} is no step{hint}; give a table with one of {', '.join(known)}"


def _no_table(value: Any, kind: type) -> str:
    fields = ", ".join(name for name, each in settings_of(kind).items() if each.is_required)
    return f"{show(value)} is no table; give one with {fields} (in Python: a {kind.__name__})"
