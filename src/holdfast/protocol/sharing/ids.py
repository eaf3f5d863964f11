"""Ids of tuples: the same whoever processes a tuple, and however often.

A tuple keeps the id its source gave it. Where one becomes several each gets the place it has among
them, so that a replica that does the work again gives the same ids.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TupleId"]


class TupleId(NamedTuple):
    """The `number`-th tuple of a source, counted from 1, and its way through the splits since."""

    origin: str
    number: int
    path: tuple[int, ...] = ()

    def derived(self, count: int) -> tuple[TupleId, ...]:
        """Ids of so many tuples that came of this one: of one alone, its own."""
        if count == 1:
            return (self,)
        return tuple(TupleId(self.origin, self.number, (*self.path, at)) for at in range(count))
