"""Queries and their panes: windows are made of panes, and only panes are aggregated at the edge.

A pane is `[start, start + length)`, aligned to the epoch; its length is the greatest common divisor
of the window's size and slide.
"""

from __future__ import annotations

from math import gcd
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.edge.aggregates import aggregate
from holdfast.protocol.edge.messages import Query

__all__ = ["Paned", "ceil_to", "floor_to"]

NOTHING: Final[Any] = None
"""The partial of a pane without events."""


def floor_to(time: int, length: int) -> int:
    return time - time % length


def ceil_to(time: int, length: int) -> int:
    return time + -time % length


class Paned:
    """A query with its aggregate. Partials are None as long as there is nothing in them."""

    def __init__(self, query: Query) -> None:
        if query.size <= 0 or query.slide <= 0:
            raise InvalidArgumentError(f"query {query.id!r}: size and slide must be positive")
        self.query = query
        self.id = query.id
        self.length = gcd(query.size, query.slide)
        self.aggregate = aggregate(query.aggregate, **query.options)

    def add(self, partial: Any, values: NDArray[np.float64], keys: Any) -> Any:
        """With these events in it, one by one in their order."""
        if self.query.keyed:
            before = {} if partial is NOTHING else partial
            return self.aggregate.add_keyed(before, keys, values)
        before = self.aggregate.empty() if partial is NOTHING else partial
        return self.aggregate.add(before, values)

    def combine(self, one: Any, other: Any) -> Any:
        """Of two slots, partitions, groups or panes: the callers keep to an order."""
        if one is NOTHING:
            return other
        if other is NOTHING:
            return one
        if self.query.keyed:
            return self.aggregate.combine_keyed(one, other)
        return self.aggregate.combine(one, other)

    def answer(self, partial: Any) -> Any:
        """What a user is told: None, or no keys, for nothing."""
        if self.query.keyed:
            return self.aggregate.answer_keyed({} if partial is NOTHING else partial)
        if partial is NOTHING:
            return self.aggregate.answer(self.aggregate.empty())
        return self.aggregate.answer(partial)
