"""Aggregates of the edge: the partials of every kind that slots hold, and how they are read.

The slots, which replicas exchange and join, are `holdfast.protocol.edge.slot`. Pure: no sockets, no
clock, no randomness.
"""

from holdfast.crdt.aggregate import (
    KINDS,
    LONGEST_KEY,
    Aggregate,
    Key,
    KeyedPartial,
    Partial,
    aggregate,
    are_plain,
    decode_partial,
    invalid_keys,
    numbers,
)

__all__ = [
    "KINDS",
    "LONGEST_KEY",
    "Aggregate",
    "Key",
    "KeyedPartial",
    "Partial",
    "aggregate",
    "are_plain",
    "decode_partial",
    "invalid_keys",
    "numbers",
]
