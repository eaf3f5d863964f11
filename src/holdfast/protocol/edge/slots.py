"""All slots that a child has, its own and copies of others', and the queries they answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.protocol.edge.messages import Query, Roster, Sitting, SlotDelta
from holdfast.protocol.edge.queries import Paned, floor_to
from holdfast.protocol.edge.slot import Slot

__all__ = ["Slots"]


class Counts(NamedTuple):
    """How many events were sent again, came too late, and were refused."""

    replayed: int = 0
    late: int = 0
    refused: int = 0

    def plus(self, slot: Slot, query: str) -> Counts:
        return Counts(
            self.replayed + slot.replayed,
            self.late + slot.late + slot.behind.get(query, 0),
            self.refused + slot.rejected + slot.refused.get(query, 0),
        )


class Slots:
    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self.queries: dict[str, Paned] = {}
        self.freed: dict[str, int] = {}
        """By query: the root has all panes that end by then."""
        self.given_up: set[str] = set()
        """Sensors that have left, and whose last words nobody waits for any longer."""
        self._slots: dict[int, dict[str, Slot]] = {}
        self._sittings = _sittings(roster)
        self._spent: dict[tuple[int, str], Counts] = {}
        """By partition and query, what was counted for sensors that are forgotten."""

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
        for slot in self:
            self._catch_up(slot)
        paned = Paned(query)
        self.queries[query.id] = paned
        first = max((slot.adopt(paned) for slot in self), default=0)
        return max(first, floor_to(self.roster.origin, paned.length))

    def retire(self, query: str) -> None:
        """Forget a query."""
        self.queries.pop(query, None)
        self.freed.pop(query, None)
        self._spent = {key: each for key, each in self._spent.items() if key[1] != query}
        for slot in self:
            slot.retire(query)

    def seat(self, roster: Roster) -> bool:
        """Whether the roster is news."""
        if roster.version <= self.roster.version:
            return False
        self.roster = roster
        self._sittings = _sittings(roster)
        # One that is back is waited for again.
        self.given_up -= {each.sensor for each in roster.sittings if each.end is None}
        self.given_up &= self._sittings.keys()
        for partition, slots in self._slots.items():
            for sensor in slots.keys() - self._sittings.keys():
                self._forget(partition, slots.pop(sensor))
        return True

    def _forget(self, partition: int, slot: Slot) -> None:
        for query in self.queries:
            before = self._spent.get((partition, query), Counts())
            self._spent[partition, query] = before.plus(slot, query)

    def counts(self, partition: int, query: str) -> Counts:
        """Since the partition began."""
        counts = self._spent.get((partition, query), Counts())
        for slot in self.of(partition):
            counts = counts.plus(slot, query)
        return counts

    def sitting(self, sensor: str) -> Sitting | None:
        """When a sensor takes part; None if it is not known."""
        return self._sittings.get(sensor)

    @property
    def leaving(self) -> set[str]:
        """Sensors that have left, and may have said more than has come."""
        ended = {name for name, each in self._sittings.items() if each.end is not None}
        return ended - self.given_up

    def uninvited(self, slot: Slot, times: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which events are of times when the sensor took no part, for it had been dismissed: panes
        did not wait for them. None if none is."""
        sitting = self._sittings[slot.sensor]
        if sitting.end is None and times.min() >= sitting.start:
            return None
        found = times < sitting.start
        return found if sitting.end is None else found | (times >= sitting.end)

    def is_whole(self, slot: Slot, start: int, end: int) -> bool:
        """Whether a sensor has said all it had for this time; of one that has left without a word
        nobody knows."""
        sitting = self._sittings[slot.sensor]
        return sitting.end is None or start >= sitting.end or slot.boundary >= min(end, sitting.end)

    def join(self, delta: SlotDelta, theirs: tuple[str, ...], *, at_once: bool) -> bool:
        """Take over what a copy has more, now or when somebody will look; whether all that it has
        is here now."""
        slot = self.get(delta.partition, delta.sensor)
        if slot is None:
            return False
        has_all = slot.hold(delta, self.queries.keys(), theirs)
        if at_once:
            self._catch_up(slot)
        return has_all

    def catch_up(self, partition: int) -> None:
        """Somebody is about to look at the copies of a partition."""
        for slot in self._slots.get(partition, {}).values():
            self._catch_up(slot)

    def _catch_up(self, slot: Slot) -> None:
        if slot.waiting is not None:
            slot.catch_up(self.queries.keys())
            self._sweep(slot)

    def free(self, query: str, until: int) -> bool:
        """The root has all panes of the query that end by then; whether that is news. They go with
        the next `sweep`."""
        if query not in self.queries or until <= self.freed.get(query, 0):
            return False
        self.freed[query] = until
        return True

    def sweep(self, slots: Iterable[Slot]) -> None:
        """Let go of all that the root has."""
        floor = self.floor
        for slot in slots:
            self._sweep(slot)
            slot.forget_losses(floor)

    def _sweep(self, slot: Slot) -> None:
        for query in self.queries.values():
            slot.free(query.id, query.length, self.freed.get(query.id, 0))

    def ready(self, partition: int) -> int:
        """Up to where all sensors have said all in a partition."""
        slots = self._slots.get(partition, {})
        ready: int | None = None
        for sensor, sitting in self._sittings.items():
            slot = slots.get(sensor)
            bound = sitting.start if slot is None else max(slot.boundary, sitting.start)
            if sitting.end is not None and (bound >= sitting.end or sensor in self.given_up):
                continue
            ready = bound if ready is None else min(ready, bound)
        if ready is None:
            ends = (each.end or 0 for each in self._sittings.values())
            return max((self.roster.through, *ends))
        return ready


def _sittings(roster: Roster) -> dict[str, Sitting]:
    return {sitting.sensor: sitting for sitting in roster.sittings}
