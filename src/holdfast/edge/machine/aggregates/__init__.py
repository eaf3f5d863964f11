"""Aggregates of the edge: plain partials that slots hold, and their answers.

Monoids, not CRDTs: `combine` of a partial with itself counts twice. Slots, which children exchange
(`holdfast.edge.machine.slots`), have one writer at a time and a version, and need no more.
Aggregates that several replicas write at once are `holdfast.crdt`.
"""

from holdfast.edge.machine.aggregates.aggregate import (
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
