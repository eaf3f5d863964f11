"""Stored windows that are fed numbers and answer the span they hold, for the tests of stores."""

from __future__ import annotations

from typing import Any

from holdfast.windows import Amta
from holdfast.windows.policies import last
from holdfast.windows.stores.stored import StoredPairs

AnyAmta = Amta[Any, Any, Any]


def stored(window: AnyAmta) -> StoredPairs[Any]:
    pairs = window.pairs
    assert isinstance(pairs, StoredPairs)
    return pairs


def feed(window: AnyAmta, upto: int, size: int) -> list[Any]:
    """Feed numbers from the window's position on, keeping the newest `size`; answer the results."""
    return window.roll(range(window.position, upto), last(size))


def assert_span(window: AnyAmta, size: int) -> None:
    assert window.result() == (window.position - size, window.position - 1)
