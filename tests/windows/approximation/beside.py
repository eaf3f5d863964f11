"""An approximate window beside the exact one, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.windows import Amta, Monoid, Policy
from holdfast.windows.approximation import (
    ApproximateWindow,
    Method,
)


def both(
    monoid: Monoid[Any, Any, Any], methods: Method | Sequence[Method], policy: Policy, values: Any
) -> Iterable[tuple[Any, Any, ApproximateWindow[Any, Any, Any]]]:
    """After each update: the exact answer, the approximate one, and its window."""
    exact, window = Amta(monoid), ApproximateWindow(monoid, methods)
    for value in values:
        for each in (exact, window):
            each.insert(value)
            each.slide(policy)
        yield exact.result(), window.result(), window
