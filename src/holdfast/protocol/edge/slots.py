"""All slots that a child has, its own and copies of others', and the queries they answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from holdfast.protocol.edge.messages import Query, Roster, Sitting, SlotDelta
from holdfast.protocol.edge.queries import Paned, floor_to
from holdfast.protocol.edge.slot import Slot

__all__ = ["Slots"]


class Slots:
    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self.queries: dict[str, Paned] = {}
        self.freed: dict[str, int] = {}
        """By query: the root has all panes that end by then."""
        self._slots: dict[int, dict[str, Slot]] = {}
        self._sittings = _sittings(roster)

    def __iter__(self) -> Iterator[Slot]:
        for slots in self._slots.values():
            yield from slots.values()

    @property
    def sensors(self) -> Collection[str]:
        return self._sittings.keys()

    @property
    def floor(self) -> int:
        """Events before this time are not needed any more."""
        return min((self.beginning(query) for query in self.queries.values()), default=0)

    @property
    def panes(self) -> int:
        """How many are held."""
        return sum(len(panes) for slot in self for panes in slot.panes.values())

    def beginning(self, query: Paned) -> int:
        """The first pane of a query that is not freed."""
        return max(self.freed.get(query.id, 0), floor_to(self.roster.origin, query.length))

    def get(self, partition: int, sensor: str) -> Slot | None:
        """None if there is no such sensor; a slot begins when it is first asked for."""
        slots = self._slots.get(partition)
        if slots is not None:
            slot = slots.get(sensor)
            if slot is not None:
                return slot
        sitting = self._sittings.get(sensor)
        if sitting is None:
            return None
        slot = Slot(partition, sensor, boundary=sitting.start)
        self._slots.setdefault(partition, {})[sensor] = slot
        return slot

    def of(self, partition: int) -> list[Slot]:
        """By sensor, one for each that takes part."""
        found = (self.get(partition, sensor) for sensor in sorted(self._sittings))
        return [slot for slot in found if slot is not None]

    def adopt(self, query: Query) -> int:
        """A new query; the pane from which on all slots have all its events."""
        paned = Paned(query)
        self.queries[query.id] = paned
        first = max((slot.adopt(paned) for slot in self), default=0)
        return max(first, floor_to(self.roster.origin, paned.length))

    def seat(self, roster: Roster) -> bool:
        """Whether the roster is news."""
        if roster.version <= self.roster.version:
            return False
        self.roster = roster
        self._sittings = _sittings(roster)
        return True

    def join(self, delta: SlotDelta, theirs: Collection[str]) -> None:
        slot = self.get(delta.partition, delta.sensor)
        if slot is not None and slot.join(delta, self.queries.keys(), theirs):
            for query in self.queries.values():
                slot.free(query.id, query.length, self.freed.get(query.id, 0))

    def free(self, query: str, until: int) -> bool:
        """The root has all panes of the query that end by then; whether that is news."""
        paned = self.queries.get(query)
        if paned is None or until <= self.freed.get(query, 0):
            return False
        self.freed[query] = until
        floor = self.floor
        for slot in self:
            slot.free(query, paned.length, until)
            slot.forget_losses(floor)
        return True

    def ready(self, partition: int) -> int:
        """Up to where all sensors have said all in a partition."""
        slots = self._slots.get(partition, {})
        ready: int | None = None
        for sensor, sitting in self._sittings.items():
            slot = slots.get(sensor)
            bound = sitting.start if slot is None else max(slot.boundary, sitting.start)
            if sitting.end is not None and bound >= sitting.end:
                continue
            ready = bound if ready is None else min(ready, bound)
        if ready is None:
            return max((each.end or 0 for each in self._sittings.values()), default=0)
        return ready


def _sittings(roster: Roster) -> dict[str, Sitting]:
    return {sitting.sensor: sitting for sitting in roster.sittings}
