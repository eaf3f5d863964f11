"""Taking events into a slot, by the guarantee that was chosen."""

from __future__ import annotations

from holdfast.protocol.edge.messages import Events, Guarantee
from holdfast.protocol.edge.slot import Slot
from holdfast.protocol.edge.slots import Slots

__all__ = ["Intake"]


class Intake:
    def __init__(self, slots: Slots, guarantee: Guarantee, most_panes: int) -> None:
        self._slots = slots
        self._filters = guarantee != "at-least-once"
        self._waits = guarantee != "at-most-once"
        self._most_panes = most_panes

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
            if self._is_far_ahead(int(times[-1])):
                return False
            known = slot.offset + 1 - events.first
            if known <= 0 or (known < count and self._filters):
                if known > 0:
                    times, values = times[known:], values[known:]
                    keys = None if keys is None else keys[known:]
                slot.add(times, values, keys, self._slots.queries.values(), self._slots.freed)
                slot.offset += len(times)
            elif not self._filters:
                self._repeat(slot, events, known)
            if events.replayed:
                slot.replayed += count
        slot.boundary = max(slot.boundary, events.boundary)
        slot.late = max(slot.late, events.late)
        return True

    def _repeat(self, slot: Slot, events: Events, known: int) -> None:
        """At least once: what comes again counts again, as long as its pane is there."""
        last = max(slot.offset, events.first + len(events.times) - 1)
        queries, freed = self._slots.queries.values(), self._slots.freed
        slot.add(events.times, events.values, events.keys, queries, freed)
        slot.offset = last

    def _is_far_ahead(self, time: int) -> bool:
        """Whether the root is so far behind that no more can be held."""
        slots = self._slots
        return any(
            time - slots.beginning(query) > self._most_panes * query.length
            for query in slots.queries.values()
        )
