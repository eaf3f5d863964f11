"""Columns that flow through the stages of a topology, as far as known without Spark.

Columns are followed through `where`, `function` and most `select` steps; behind a join, a window or
a `sql` step only Spark knows them, and nothing is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.config.problems import Problem, did_you_mean, show
from holdfast.config.settings import is_sound
from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.topology.columns import Column
from holdfast.pipeline.topology.expressions import selected_name
from holdfast.pipeline.topology.rules import Sound
from holdfast.pipeline.topology.sinks import SqlTable
from holdfast.pipeline.topology.stages import Function, Join, Select, Stage, Where, Window

Columns = Mapping[str, str | None]
"""Names, and types where they are known."""


def check_flow(sound: Sound) -> Iterator[Problem]:
    flowing: dict[str, Columns | None] = {
        name: _columns(stream.source.schema) if is_sound(stream, "source") else None
        for name, stream in sound.streams.items()
    }
    # A stage on a circle is checked as well, but nothing is known of its inputs.
    in_order = dict.fromkeys([*sound.order, *sound.stages])
    for name in in_order:
        walk = _Walk(name, sound.stages[name], sound, flowing)
        yield from walk.check()
        flowing[name] = walk.columns
    for name, sink in sound.sinks.items():
        if not is_sound(sink, "stream", "sink") or not isinstance(sink.sink, SqlTable):
            continue
        known = flowing.get(sink.stream)
        if known is not None and is_sound(sink.sink, "keys"):
            for key in sink.sink.keys:
                if key not in known:
                    yield Problem(f"sinks.{name}", "keys", _no_column(key, known))


def _columns(schema: Any) -> Columns | None:
    if not isinstance(schema, tuple) or not all(isinstance(each, Column) for each in schema):
        return None
    return dict(schema)


def _no_column(name: str, known: Columns) -> str:
    there = ", ".join(list(known)[:20])
    return f"there is no column {show(name)}{did_you_mean(name, known)}; there are {there}"


class _Walk:
    """Goes through the steps of one stage."""

    def __init__(
        self, name: str, stage: Stage, sound: Sound, flowing: Mapping[str, Columns | None]
    ) -> None:
        self.columns: Columns | None = None
        self._place = f"stages.{name}"
        self._stage = stage
        self._read = {each: flowing.get(each) for each in sound.inputs[name]}
        self._is_complete = is_sound(stage, "inputs") and len(self._read) == len(stage.inputs)

    def check(self) -> Iterator[Problem]:
        steps: Sequence[Any] = self._stage.steps if is_sound(self._stage, "steps") else ()
        if not any(isinstance(step, Join) for step in steps):
            yield from self._unite()
        windows = 0
        for number, step in enumerate(steps, 1):
            field = f"steps #{number}"
            match step:
                case Where():
                    pass
                case Select():
                    yield from self._select(f"{field} select", step)
                case Function():
                    self.columns = _columns(step.schema)
                case Join():
                    yield from self._join(f"{field} join", number, step)
                    self.columns = None
                case Window():
                    windows += 1
                    yield from self._window(f"{field} window", windows, step)
                    self.columns = None
                case _:
                    self.columns = None

    def _problem(self, field: str, message: str) -> Problem:
        return Problem(self._place, field, message)

    def _unite(self) -> Iterator[Problem]:
        """The columns of a union; those of the only input, as a rule."""
        known = {name: columns for name, columns in self._read.items() if columns is not None}
        if not known:
            return
        first, columns = next(iter(known.items()))
        for name, others in known.items():
            if not _alike(columns, others):
                yield self._problem(
                    "inputs",
                    f"a union needs the same columns in the same order, and {first!r} has "
                    f"({_listed(columns)}), {name!r} has ({_listed(others)}); select the same "
                    "columns in stages before it, or begin with a join",
                )
                return
        if self._is_complete and len(known) == len(self._read):
            self.columns = columns

    def _select(self, field: str, step: Select) -> Iterator[Problem]:
        known, self.columns = self.columns, None
        if not is_sound(step, "select"):
            return
        names: dict[str, str | None] = {}
        taken: set[str] = set()
        lowered = {each.lower(): type_ for each, type_ in (known or {}).items()}
        for number, expression in enumerate(step.select, 1):
            name, is_plain = selected_name(expression)
            if name is None:
                return
            here = f"{field} #{number}"
            if name.lower() == STIME:
                remedy = "leave it out" if is_plain else "choose another name"
                message = f"{STIME!r} is reserved: every stream has the event time in it"
                yield self._problem(here, f"{message}; {remedy}")
            elif name.lower() in taken:
                message = f"there is a column {show(name)} already; give one of them another name"
                yield self._problem(here, message)
            elif is_plain and known is not None and name.lower() not in lowered:
                yield self._problem(here, _no_column(name, known))
            taken.add(name.lower())
            names[name] = lowered.get(name.lower()) if is_plain else None
        self.columns = names

    def _join(self, field: str, number: int, step: Join) -> Iterator[Problem]:
        if number != 1:
            message = "is not the first step; put it first, or into a stage of its own"
            yield self._problem(field, message)
        if is_sound(self._stage, "inputs") and len(self._stage.inputs) != 2:
            count = len(self._stage.inputs)
            message = f"joins two inputs, and the stage has {count}; give inputs two names"
            yield self._problem(field, message)
        if not is_sound(step, "keys"):
            return
        if not step.keys:
            message = "is empty; give the columns that are equal in both inputs"
            yield self._problem(f"{field}.keys", message)
        for key in step.keys:
            types = {}
            for name, columns in self._read.items():
                if columns is None:
                    continue
                if key not in columns:
                    message = f"in {name!r} {_no_column(key, columns)}"
                    yield self._problem(f"{field}.keys", message)
                elif columns[key] is not None:
                    types[name] = columns[key]
            if len(set(types.values())) > 1:
                told = ", ".join(f"{type_} in {name!r}" for name, type_ in types.items())
                message = f"{show(key)} is {told}; cast one of them in a stage before"
                yield self._problem(f"{field}.keys", message)

    def _window(self, field: str, count: int, step: Window) -> Iterator[Problem]:
        if count == 2:
            yield self._problem(field, "is the second one; put it into a stage of its own")
        if is_sound(step, "size", "slide") and step.slide is not None and step.slide > step.size:
            yield self._problem(
                f"{field}.slide",
                f"{step.slide} is more than size, {step.size}, and rows between two windows would "
                "be lost; give at most the size",
            )
        taken: set[str] = set()
        if is_sound(step, "keys"):
            taken = {key.lower() for key in step.keys}
            for key in step.keys:
                if self.columns is not None and key not in self.columns:
                    yield self._problem(f"{field}.keys", _no_column(key, self.columns))
        if not is_sound(step, "aggregates"):
            return
        for number, aggregate in enumerate(step.aggregates, 1):
            here = f"{field}.aggregates #{number}"
            column = aggregate.column
            known = self.columns
            if column is None or known is None:
                pass
            elif column not in known and column != STIME:
                yield self._problem(here, _no_column(column, known))
            if aggregate.name.lower() in taken:
                message = f"there is a column {show(aggregate.name)} already; write AS another name"
                yield self._problem(here, message)
            taken.add(aggregate.name.lower())


def _alike(one: Columns, other: Columns) -> bool:
    if list(one) != list(other):
        return False
    return all(None in (type_, other[name]) or type_ == other[name] for name, type_ in one.items())


def _listed(columns: Columns) -> str:
    return ", ".join(f"{name} {type_ or '?'}" for name, type_ in list(columns.items())[:20])
