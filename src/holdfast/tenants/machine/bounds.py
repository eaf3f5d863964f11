"""Bound on the cost of an expression, found without running it.

The values of channels have a largest size, so every part of an expression has one too, and a loop
runs at most as often as the list that it runs over is long. An expression that might take too long
or too much memory is refused when it is written; so none has to be stopped by a clock when it runs,
which would give one result live and another when the log is replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.errors import InvalidArgumentError
from holdfast.tenants.machine.updates import LONGEST_ARRAY, LONGEST_STRING

MOST_WORK: Final = 1_000_000
MOST_WEIGHT: Final = 1_048_576
"""Bytes, about, of anything that an expression makes on its way."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """A node of an expression that was parsed."""

    kind: str
    """constant, name, select, call, list, map or loop."""
    name: str = ""
    children: tuple[Syntax, ...] = ()
    """Of a loop: what it runs over, start, condition, step, result."""
    size: int = 1
    """Of a constant."""
    value: float | bool | None = None
    """Of a constant that is a number or a boolean."""
    variables: tuple[str, ...] = ()
    """Of a loop: for the element, for the result so far, for a second one of the element."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest value there can be."""

    length: int = 1
    """Elements, or characters."""
    weight: int = 8
    element: Bound | None = None

    def part(self) -> Bound:
        return self.element or Bound(self.weight, self.weight)


@dataclass(frozen=True, slots=True)
class Cost:
    work: int
    """Steps, about."""
    bound: Bound


SCALAR: Final = Bound()
ELEMENT: Final = 20
"""Steps to hand over one element of a list."""

# fmt: off
_SMALL: Final = frozenset({
    "_*_", "_-_", "_/_", "_%_", "-_", "!_", "_&&_", "_||_", "_<_", "_<=_", "_>_", "_>=_", "_==_",
    "_!=_", "@in", "@not_strictly_false", "size", "contains", "startsWith", "endsWith", "matches",
    "double", "int", "uint", "bool", "timestamp", "duration", "type", "pow", "sqrt", "exp", "ln",
    "abs", "floor", "ceil", "round", "min", "max", "sin", "cos", "atan2", "getDate",
    "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds",
    "getMinutes", "getMonth", "getSeconds",
})
# fmt: on
"""What answers something small, whatever it is given."""


def bound_of_type(kind: str) -> Bound:
    """Of a channel."""
    if kind.endswith("[]"):
        element = bound_of_type(kind.removesuffix("[]"))
        return Bound(LONGEST_ARRAY, LONGEST_ARRAY * element.weight, element)
    # A character may take four bytes.
    return Bound(LONGEST_STRING, 4 * LONGEST_STRING) if kind == "string" else SCALAR


def names_in(syntax: Syntax) -> frozenset[str]:
    own = frozenset([syntax.name]) if syntax.kind == "name" else frozenset()
    return own.union(*(names_in(child) for child in syntax.children))


def check_cost(syntax: Syntax, variables: Mapping[str, Bound], most: int = MOST_WORK) -> int:
    """The steps an expression takes at most; raises if they, or what it makes, are too many."""
    work = cost_of(syntax, variables).work
    if work > most:
        raise InvalidArgumentError(
            f"may take {work:,} steps, of {most:,} at most; nest fewer loops, or loop over less"
        )
    return work


def cost_of(syntax: Syntax, variables: Mapping[str, Bound]) -> Cost:
    found = _cost(syntax, variables)
    if found.bound.weight > MOST_WEIGHT:
        raise InvalidArgumentError(
            f"may make a value of {found.bound.weight:,} bytes, of {MOST_WEIGHT:,} at most; "
            "put less together"
        )
    return found


def _cost(syntax: Syntax, variables: Mapping[str, Bound]) -> Cost:
    match syntax.kind:
        case "constant":
            return Cost(1, Bound(syntax.size, 8 + syntax.size))
        case "name":
            bound = variables.get(syntax.name, SCALAR)
            # A list is handed over element by element.
            return Cost(1 + (ELEMENT * bound.length if bound.element else 0), bound)
        case "loop":
            return _loop(syntax, variables)
    costs = [cost_of(child, variables) for child in syntax.children]
    work = 1 + sum(cost.work for cost in costs)
    bounds = [cost.bound for cost in costs]
    weight = sum(bound.weight for bound in bounds)
    match syntax.kind:
        case "select":
            return Cost(work, bounds[0].part())
        case "list" | "map":
            element = _largest(bounds) if bounds else SCALAR
            return Cost(work, Bound(len(bounds), 8 * len(bounds) + weight, element))
    return Cost(work + _effort(syntax.name, bounds), _call(syntax.name, bounds, weight))


def _call(function: str, bounds: list[Bound], weight: int) -> Bound:
    if function in _SMALL:
        return SCALAR
    match function:
        case "_?_:_":
            return _largest(bounds[1:])
        case "_[_]" | "_[?_]":
            return bounds[0].part()
        case "dyn":
            return bounds[0]
        case "_+_":
            elements = [bound.element for bound in bounds if bound.element is not None]
            length = sum(bound.length for bound in bounds)
            return Bound(length, weight, _largest(elements) if elements else None)
    return Bound(32 + 4 * weight, 32 + 4 * weight)


def _effort(function: str, bounds: list[Bound]) -> int:
    """Steps that a call takes beyond those of its arguments: they grow with their size."""
    if function == "_?_:_" or not bounds:
        return 1
    work = sum(bound.weight for bound in bounds) // 8
    if function == "matches":
        work += bounds[0].weight * bounds[-1].weight // 16 + 16 * bounds[-1].weight
    return work


def _loop(syntax: Syntax, variables: Mapping[str, Bound]) -> Cost:
    over, start, condition, step, result = syntax.children
    first, so_far, second = syntax.variables
    costs_over, costs_start = cost_of(over, variables), cost_of(start, variables)
    inside = {**variables, first: costs_over.bound.part(), so_far: Bound(0, 0)}
    if second:
        inside[second] = costs_over.bound.part()
    # A step adds to what there is so far, which nobody but the loop can name.
    each, ask = cost_of(step, inside), cost_of(condition, inside)
    times = costs_over.bound.length
    made = Bound(
        costs_start.bound.length + times * each.bound.length,
        costs_start.bound.weight + times * each.bound.weight,
        each.bound.element,
    )
    end = cost_of(result, {**variables, so_far: made})
    work = 1 + costs_over.work + costs_start.work + times * (each.work + ask.work) + end.work
    return Cost(work, end.bound)


def _largest(bounds: list[Bound]) -> Bound:
    elements = [bound.element for bound in bounds if bound.element is not None]
    return Bound(
        max(bound.length for bound in bounds),
        max(bound.weight for bound in bounds),
        _largest(elements) if elements else None,
    )
