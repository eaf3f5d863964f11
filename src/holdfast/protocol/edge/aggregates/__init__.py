"""Aggregates of the edge: plain partials of every kind that slots hold, and their answers.

Monoids, not CRDTs: `combine` of a partial with itself counts twice. Slots, which children exchange
(`holdfast.protocol.edge.slot`), have one writer at a time and a version, and need no more.
Aggregates that several replicas write at once are `holdfast.crdt`.
"""

from holdfast.protocol.edge.aggregates.aggregate import (
    KINDS,
    Aggregate,
    Key,
    KeyedPartial,
    Partial,
    aggregate,
    decode_partial,
    numbers,
)

__all__ = [
    "KINDS",
    "Aggregate",
    "Key",
    "KeyedPartial",
    "Partial",
    "aggregate",
    "decode_partial",
    "numbers",
]
