"""To which seat of an operator a tuple goes.

All but `at_random` depend on the tuple alone: done again, it comes to the same seat, where it is
known. With `at_random` it may come to another, and is filtered at the latest at the sink.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.protocol.sharing.ids import TupleId
from holdfast.tuples import shard_of

if TYPE_CHECKING:
    from random import Random

__all__ = ["Routing", "at_random", "by_key", "primary", "round_robin"]

Routing = Callable[[TupleId, Any, int], int]
"""Of a tuple's id, its value and the number of seats: a seat."""


def round_robin(tuple_id: TupleId, value: Any, seats: int) -> int:
    """One after the other, by the number the source gave."""
    return (tuple_id.number + sum(tuple_id.path)) % seats


def by_key(key: Callable[[Any], Any]) -> Routing:
    """All tuples with the same key to the same seat."""

    def route(tuple_id: TupleId, value: Any, seats: int) -> int:
        return shard_of(key(value), seats)

    return route


def at_random(rng: Random) -> Routing:
    def route(tuple_id: TupleId, value: Any, seats: int) -> int:
        return rng.randrange(seats)

    return route


def primary(tuple_id: TupleId, value: Any, seats: int) -> int:
    """All to the first seat; the others stand by."""
    return 0
