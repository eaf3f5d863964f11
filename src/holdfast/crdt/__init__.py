"""Delta-CRDT aggregates: partials of every kind, slots that merge, and what waits for each peer.

Used by `holdfast.protocol.edge`. Pure: no sockets, no clock, no randomness.
"""

from holdfast.crdt.aggregate import (
    KINDS,
    Aggregate,
    Key,
    KeyedPartial,
    Partial,
    aggregate,
    decode_partial,
    numbers,
)
from holdfast.crdt.buffer import Buffer
from holdfast.crdt.slots import (
    BEGINNING,
    Pane,
    Slot,
    SlotKey,
    State,
    Version,
    delta,
    join,
    leq,
    merge,
    news,
    pack,
    unpack,
    versions,
)

__all__ = [
    "BEGINNING",
    "KINDS",
    "Aggregate",
    "Buffer",
    "Key",
    "KeyedPartial",
    "Pane",
    "Partial",
    "Slot",
    "SlotKey",
    "State",
    "Version",
    "aggregate",
    "decode_partial",
    "delta",
    "join",
    "leq",
    "merge",
    "news",
    "numbers",
    "pack",
    "unpack",
    "versions",
]
