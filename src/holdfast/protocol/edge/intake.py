"""Taking events into a slot, by the guarantee that was chosen."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.protocol.edge.closing import Closing
from holdfast.protocol.edge.formation import name_of
from holdfast.protocol.edge.messages import Events, Guarantee
from holdfast.protocol.edge.slot import Slot
from holdfast.protocol.edge.slots import Slots

__all__ = ["Intake"]


class Intake:
    def __init__(
        self, slots: Slots, closing: Closing, guarantee: Guarantee, most_panes: int
    ) -> None:
        self._slots = slots
        self._closing = closing
        self._filters = guarantee != "at-least-once"
        self._waits = guarantee != "at-most-once"
        self._most_panes = most_panes
        self.refused: Counter[tuple[str, str]] = Counter()
        """Events that could not be added here, by sensor and reason."""

    def take(self, slot: Slot, events: Events) -> bool:
        """Whether they follow on; if not, events are missing and nothing is taken."""
        times, values, keys = events.times, events.values, events.keys
        count = len(times)
        if events.first > slot.offset + 1:
            if self._waits:
                return False
            until = max(events.newest, int(times.max()) if count else events.boundary)
            missing = events.first - 1 - slot.offset
            slot.skip(events.first - 1, missing, until)
        if count:
            if self._is_full(slot, int(times[-1])):
                return False
            known = slot.offset + 1 - events.first
            if known <= 0 or (known < count and self._filters):
                if known > 0:
                    times, values = times[known:], values[known:]
                    keys = None if keys is None else keys[known:]
                self._add(slot, times, values, keys)
                slot.offset += len(times)
            elif not self._filters:
                self._repeat(slot, events, known)
            if events.replayed:
                slot.replayed += count
        slot.boundary = max(slot.boundary, events.boundary)
        slot.late = max(slot.late, events.late)
        slot.rejected = max(slot.rejected, events.rejected)
        return True

    def _add(self, slot: Slot, times: Any, values: Any, keys: Any) -> None:
        queries, freed = self._slots.queries.values(), self._slots.freed
        uninvited = self._slots.uninvited(slot, times)
        if uninvited is not None:
            self._count_behind(slot, times[uninvited])
        for reason, count in slot.add(times, values, keys, queries, freed).items():
            self.refused[name_of(slot.sensor), reason] += count

    def _count_behind(self, slot: Slot, times: NDArray[np.int64]) -> None:
        most = 0
        for query in self._slots.queries.values():
            closed = self._closing.through(slot.partition, query.id)
            if count := int((times < closed).sum()):
                slot.behind[query.id] = slot.behind.get(query.id, 0) + count
                most = max(most, count)
        if most:
            self.refused[name_of(slot.sensor), "pane closed"] += most

    def _repeat(self, slot: Slot, events: Events, known: int) -> None:
        """At least once: what comes again counts again, as long as its pane is there."""
        last = max(slot.offset, events.first + len(events.times) - 1)
        self._add(slot, events.times, events.values, events.keys)
        slot.offset = last

    def _is_full(self, slot: Slot, time: int) -> bool:
        """Whether the root is so far behind that no further pane can be held."""
        for query in self._slots.queries.values():
            panes = slot.panes.get(query.id)
            if panes and len(panes) >= self._most_panes:
                return time - time % query.length not in panes
        return False
