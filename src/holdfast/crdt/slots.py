"""States that replicas exchange: slots, how two copies of one are joined, and what a peer lacks.

A slot holds what one sensor's events in one partition have come to. Its events are numbered, and
all up to `offset` are in and none after it; so a slot is a function of its version and two copies
are joined by taking the newer. That makes `merge` idempotent, commutative and associative for
every aggregate there is: lost, repeated and reordered payloads, two writers and late words of a
node thought dead cannot count an event twice. A slot travels whole, so each payload heals the
loss of all before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from holdfast.crdt.aggregate import Partial, decode_partial

__all__ = [
    "BEGINNING",
    "Pane",
    "Slot",
    "SlotKey",
    "State",
    "Version",
    "delta",
    "join",
    "leq",
    "merge",
    "news",
    "pack",
    "unpack",
    "versions",
]

SlotKey = tuple[Any, Any]
"""The partition and the sensor."""
Pane = tuple[Any, int]
"""The query and where the pane begins."""
Version = tuple[int, int]
"""The offset and the boundary of a slot: they only ever grow, so versions have an order."""

BEGINNING: Final = -(1 << 63)
"""The boundary of a slot whose sensor has said nothing yet."""
NOTHING: Final[Version] = (0, BEGINNING)


@dataclass(frozen=True, slots=True)
class Slot:
    """What one sensor's events in one partition have come to. `panes` is never changed in place."""

    offset: int = 0
    """All events up to it are in, none after it; the first event is 1."""
    boundary: int = BEGINNING
    """The sensor sends nothing older than this event time any more."""
    panes: Mapping[Pane, Partial] = field(default_factory=dict)
    """The partial of each pane that is open, keyed or not."""

    @property
    def version(self) -> Version:
        return self.offset, self.boundary


State = dict[SlotKey, Slot]


def join(a: Slot, b: Slot) -> Slot:
    """The newer of two copies.

    Of equal versions the panes of both: one side may have freed some already, or have been asked a
    query later. Under a guarantee that filters nothing, copies of one version may differ in a pane;
    then the greater encoding is taken, so that all take the same.
    """
    if a.version != b.version:
        return a if a.version > b.version else b
    if a.panes == b.panes:
        return a
    panes = dict(a.panes)
    for pane, partial in b.panes.items():
        panes[pane] = _greater(panes[pane], partial) if pane in panes else partial
    return Slot(a.offset, a.boundary, panes)


def merge(a: Mapping[SlotKey, Slot], b: Mapping[SlotKey, Slot]) -> State:
    """The least state that contains both."""
    merged = dict(a)
    for key, slot in b.items():
        merged[key] = join(merged[key], slot) if key in merged else slot
    return merged


def leq(a: Mapping[SlotKey, Slot], b: Mapping[SlotKey, Slot]) -> bool:
    """Whether all that is in `a` is in `b`."""
    return all(_contains(b.get(key, Slot()), slot) for key, slot in a.items())


def versions(state: Mapping[SlotKey, Slot]) -> dict[SlotKey, Version]:
    """How far each slot is."""
    return {key: slot.version for key, slot in state.items()}


def delta(state: Mapping[SlotKey, Slot], since: Mapping[SlotKey, Version]) -> State:
    """The slots that are newer than those versions, whole."""
    return {key: slot for key, slot in state.items() if slot.version > since.get(key, NOTHING)}


def news(state: Mapping[SlotKey, Slot], received: Mapping[SlotKey, Slot]) -> State:
    """The part of what was received that makes the state greater: the rest is redundant."""
    return {
        key: slot
        for key, slot in received.items()
        if not (key in state and _contains(state[key], slot))
    }


def pack(state: Mapping[SlotKey, Slot]) -> list[Any]:
    """As nested lists for msgpack, a partition's name once for all its sensors."""
    partitions: dict[Any, list[Any]] = {}
    for (partition, sensor), slot in state.items():
        panes = [[query, start, partial] for (query, start), partial in slot.panes.items()]
        partitions.setdefault(partition, []).append([sensor, slot.offset, slot.boundary, panes])
    return [[partition, sensors] for partition, sensors in partitions.items()]


def unpack(data: list[Any]) -> State:
    """The state that was packed."""
    return {
        (partition, sensor): Slot(
            offset,
            boundary,
            {(query, start): decode_partial(partial) for query, start, partial in panes},
        )
        for partition, sensors in data
        for sensor, offset, boundary, panes in sensors
    }


def _contains(slot: Slot, other: Slot) -> bool:
    if slot.version != other.version:
        return slot.version > other.version
    return all(
        pane in slot.panes and _greater(slot.panes[pane], partial) is slot.panes[pane]
        for pane, partial in other.panes.items()
    )


def _greater(a: Partial, b: Partial) -> Partial:
    if a is b or a == b:
        return a
    return a if _ENCODER.encode(a) >= _ENCODER.encode(b) else b


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
