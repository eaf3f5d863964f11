"""Values folded by a monoid or refused by it, for the tests of the monoids."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from holdfast.errors import InvalidValueError
from holdfast.windows.amta import Amta
from holdfast.windows.monoid import Monoid


def fold(monoid: Monoid[Any, Any, Any], values: list[Any]) -> Any:
    """The state of the values, combined from the oldest on."""
    return reduce(monoid.combine, map(monoid.lift, values), monoid.identity)


def fold_in_halves(monoid: Monoid[Any, Any, Any], values: list[Any]) -> Any:
    """The state of the values, combined as a balanced tree."""
    if len(values) < 2:
        return fold(monoid, values)
    middle = len(values) // 2
    return monoid.combine(
        fold_in_halves(monoid, values[:middle]), fold_in_halves(monoid, values[middle:])
    )


def answer(monoid: Monoid[Any, Any, Any], *values: Any) -> Any:
    return monoid.lower(fold(monoid, list(values)))


def refuses(monoid: Monoid[Any, Any, Any], value: Any, *, because: str) -> None:
    """The monoid refuses the value by name and reason, and a window over it stays as it was."""
    window = Amta(monoid)
    window.insert(1)
    before = window.result()
    with pytest.raises(InvalidValueError, match=rf"^{monoid.name}: .*{because}"):
        window.insert(value)
    assert len(window) == 1
    assert window.result() == before
