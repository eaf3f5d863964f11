"""Several monoids in one window: their product, and the record it answers.

A window over a product walks its tree once for all dimensions. Policies read single fields of the
record while they search, so a field is lowered when it is first read and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from dataclasses import replace
from functools import partial
from keyword import iskeyword
from typing import Any

from holdfast.errors import InvalidArgumentError
from holdfast.windows.monoid import Addend, Monoid, updates, with_updates

__all__ = ["Record", "product"]

Fields = Mapping[str, tuple[int, Callable[[Any], Any]]]
"""For each name, the position of its state and how to lower it."""


class Record:
    """What a product answers: immutable, its fields read as attributes or as items.

    `dict(record)` has all of them; a record equals any mapping with the same items. A pickled one
    carries the answers, not the states.
    """

    __slots__ = ("_fields", "_lowered", "_states")

    def __init__(self, fields: Fields, states: Sequence[Any]) -> None:
        self._fields = fields
        self._states = states
        self._lowered: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        lowered = self._lowered
        if name not in lowered:
            position, lower = self._fields[name]
            lowered[name] = lower(self._states[position])
        return lowered[name]

    def __getattr__(self, name: str) -> Any:
        # No field starts with an underscore, but a slot that is not yet filled does.
        if name.startswith("_") or name not in self._fields:
            raise AttributeError(f"this record has no field {name!r}")
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def keys(self) -> KeysView[str]:
        return self._fields.keys()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record | Mapping):
            return NotImplemented
        return dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Record({', '.join(f'{name}={self[name]!r}' for name in self)})"

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._fields]

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], Record], tuple[dict[str, Any]]]:
        return _restore, (dict(self),)


def _restore(answers: dict[str, Any]) -> Record:
    fields = {name: (position, _itself) for position, name in enumerate(answers)}
    return Record(fields, tuple(answers.values()))


def _itself(answer: Any) -> Any:
    return answer


def product(**dimensions: Monoid[Any, Any, Any]) -> Monoid[Any, tuple[Any, ...], Record]:
    """All the monoids over the same updates, in one window; answers a `Record` with their names.

    Each dimension takes what it needs of an update by `over`:

    >>> from holdfast.windows import monoids as m
    >>> trades = m.product(time=m.time.over("at"), volume=m.sum.over("size"), n=m.count)
    >>> trades.lower(trades.lift({"at": 7, "size": 100}))
    Record(time=7, volume=100, n=1)
    """
    _check_dimensions(dimensions)
    parts = list(dimensions.values())
    lifts = [part.lift for part in parts]
    combines = [part.combine for part in parts]
    fields = {
        name: (position, part.lower) for position, (name, part) in enumerate(dimensions.items())
    }
    checks = [
        (position, part.check_order)
        for position, part in enumerate(parts)
        if part.check_order is not None
    ]

    def lift(update: Any) -> tuple[Any, ...]:
        return tuple([lift_part(update) for lift_part in lifts])

    def combine(older: tuple[Any, ...], newer: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([join(a, b) for join, a, b in zip(combines, older, newer, strict=True)])

    def lower(state: tuple[Any, ...]) -> Record:
        return Record(fields, state)

    def check_order(newest: tuple[Any, ...], incoming: tuple[Any, ...]) -> None:
        for position, check in checks:
            check(newest[position], incoming[position])

    return Monoid(
        name="product",
        identity=tuple(part.identity for part in parts),
        lift=lift,
        combine=combine,
        lower=lower,
        check_order=check_order if checks else None,
        addends=_addends(dimensions),
        peak=_only_peak(parts),
        parameters=", ".join(f"{name}={part.signature}" for name, part in dimensions.items()),
    )


def _addends(dimensions: Mapping[str, Monoid[Any, Any, Any]]) -> dict[str, Addend]:
    """Those of all dimensions; one of several of a dimension is called `dimension.addend`.

    For the sake of dimensions in which nothing adds up there is the number of updates.
    """
    found = {}
    for position, (name, part) in enumerate(dimensions.items()):
        for addend, each in part.addends.items():
            label = name if len(part.addends) == 1 else f"{name}.{addend}"
            if each.read is not updates:
                each = replace(each, read=partial(_read_part, position, each.read))
            found[label] = each
    counted = any(each.read is updates for each in found.values())
    if found and not counted and not all(part.addends for part in dimensions.values()):
        return with_updates(found)
    return found


def _only_peak(parts: Sequence[Monoid[Any, Any, Any]]) -> Callable[[Any], Any] | None:
    """That of the one dimension that picks the greatest, if just one does."""
    peaks = [(position, part.peak) for position, part in enumerate(parts) if part.peak is not None]
    return partial(_read_part, *peaks[0]) if len(peaks) == 1 else None


def _read_part(position: int, read: Callable[[Any], Any], state: tuple[Any, ...]) -> Any:
    return read(state[position])


def _check_dimensions(dimensions: Mapping[str, object]) -> None:
    if not dimensions:
        raise InvalidArgumentError("product: give at least one dimension, as in product(n=count)")
    for name, part in dimensions.items():
        if not name.isidentifier() or name.startswith("_") or iskeyword(name) or name == "keys":
            raise InvalidArgumentError(
                f"product: {name!r} cannot be read as an attribute of a record; take a Python name "
                "that has no leading underscore and is neither a keyword nor 'keys'"
            )
        if not isinstance(part, Monoid):
            raise InvalidArgumentError(
                f"product: {name} is {part!r}, which is no monoid; "
                "call it first if it takes parameters, as in top_k(3)"
            )
