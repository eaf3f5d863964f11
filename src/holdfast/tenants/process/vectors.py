"""Expressions of numbers and booleans over many updates at once, with NumPy.

Only what gives the same bits as the package that runs an expression for one update: arithmetic and
comparison of doubles, logic, and the functions that expressions have, which are Python's. All
parts are calculated, also those that a condition leaves out; what fails then is left to that
package.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from holdfast.tenants.machine.bounds import Syntax

Arrays = Mapping[str, Any]
Vector = Callable[[Arrays], Any]
"""Values of variables in, results out: arrays, or one value for all."""

_OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "_+_": operator.add,
    "_-_": operator.sub,
    "_*_": operator.mul,
    "_/_": np.divide,
    "-_": operator.neg,
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
    "_==_": operator.eq,
    "_!=_": operator.ne,
    "_&&_": np.logical_and,
    "_||_": np.logical_or,
    "!_": np.logical_not,
    "_?_:_": np.where,
}
_DEEPEST: Final = 100
"""Parts within parts: each is a call of Python."""


def vector_of(
    syntax: Syntax, types: Mapping[str, str], functions: Mapping[str, Callable[..., float]]
) -> Vector | None:
    """None: it has to be calculated for one update after the other."""
    try:
        return _vector(syntax, types, functions, 0)
    except _OtherError:
        return None


class _OtherError(Exception):
    """A part that is not known here."""


def _vector(
    syntax: Syntax,
    types: Mapping[str, str],
    functions: Mapping[str, Callable[..., float]],
    depth: int,
) -> Vector:
    if depth > _DEEPEST:
        raise _OtherError
    if syntax.kind == "constant" and syntax.value is not None:
        value = np.float64(syntax.value) if type(syntax.value) is float else syntax.value
        return lambda _: value
    name = syntax.name
    if syntax.kind == "name" and types.get(name) in ("number", "boolean"):
        return lambda arrays: arrays[name]
    if syntax.kind != "call":
        raise _OtherError
    parts = [_vector(each, types, functions, depth + 1) for each in syntax.children]
    if name in _OPERATORS:
        run = _OPERATORS[name]
    elif name in functions:
        run = _elementwise(functions[name])
    else:
        raise _OtherError
    match parts:
        case [a]:
            return lambda arrays: run(a(arrays))
        case [a, b]:
            return lambda arrays: run(a(arrays), b(arrays))
        case [a, b, c]:
            return lambda arrays: run(a(arrays), b(arrays), c(arrays))
    raise _OtherError


def _elementwise(function: Callable[..., float]) -> Callable[..., Any]:
    def run(*given: Any) -> Any:
        arrays = np.broadcast_arrays(*given)
        columns = (each.ravel().tolist() for each in arrays)
        made = [function(*row) for row in zip(*columns, strict=True)]
        return np.array(made, dtype=np.float64).reshape(arrays[0].shape)

    return run
