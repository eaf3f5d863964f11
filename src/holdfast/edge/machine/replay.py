"""Events into slots by the chosen guarantee, and requests for events after a take-over or gap.

A request is repeated until events of its epoch come that follow on. Events that a sensor does not
have any more may still be with a peer, as part of a slot: only what no living peer has either is
given up, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.edge.machine.closing import Closing
from holdfast.edge.machine.formation import name_of
from holdfast.edge.machine.messages import Events, Fetch, Guarantee, Lost, Resume, Send
from holdfast.edge.machine.slots import Slot, Slots
from holdfast.groups import Claim


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


Key = tuple[int, str]


@dataclass(slots=True)
class _Fetching:
    """Lost events that others are asked for since then."""

    since: int
    next_at: int = 0


class Custody:
    def __init__(self, slots: Slots, patience: int, give_up: int) -> None:
        self._slots = slots
        self._patience = patience
        self._give_up = give_up
        self._asking: dict[Key, int] = {}
        self._fetching: dict[Key, _Fetching] = {}

    @property
    def due(self) -> int | None:
        return min(self._asking.values(), default=None)

    @property
    def asking(self) -> Collection[Key]:
        return self._asking.keys()

    def take(self, claim: Claim, now: int) -> list[Send]:
        """The partition is ours now: all sensors are to send here."""
        slots = self._slots.of(claim.partition)
        return [send for slot in slots for send in self.ask(slot, claim, now)]

    def release(self, partition: int) -> None:
        self._asking = {k: at for k, at in self._asking.items() if k[0] != partition}
        self._fetching = {k: each for k, each in self._fetching.items() if k[0] != partition}

    def drop(self, partition: int, sensor: str) -> None:
        """It has left, and will not answer."""
        self._asking.pop((partition, sensor), None)
        self._fetching.pop((partition, sensor), None)

    def ask(self, slot: Slot, claim: Claim, now: int) -> list[Send]:
        """Ask for what follows, unless that was asked a moment ago."""
        key = slot.partition, slot.sensor
        if self._asking.get(key, now) > now or slot.sensor in self._slots.given_up:
            return []
        self._asking[key] = now + self._patience
        floor = self._slots.floor
        message = Resume(slot.partition, claim.epoch, claim.node, slot.offset, floor)
        return [Send(slot.sensor, message)]

    def answered(self, slot: Slot) -> None:
        """What was asked for comes."""
        self.drop(slot.partition, slot.sensor)

    def overdue(self, now: int) -> list[Slot]:
        """The slots whose request is to be repeated."""
        found = (self._slots.get(*key) for key, at in sorted(self._asking.items()) if at <= now)
        return [slot for slot in found if slot is not None]

    def lost(
        self,
        slot: Slot,
        message: Lost,
        claim: Claim,
        others: Collection[str],
        now: int,
        *,
        all_live: bool,
    ) -> list[Send]:
        """The sensor does not have all that follows any more. One of the others may, and be it one
        that is held for dead: only if all are there and none has it, or after `give_up`, it is
        lost."""
        key = slot.partition, slot.sensor
        if message.after != slot.offset or not message.gaps:
            return []
        if message.since < self._slots.floor:
            # The root has more by now: fewer of them are needed.
            self._asking.pop(key, None)
            return self.ask(slot, claim, now)
        if others and any(gap.count for gap in message.gaps):
            fetching = self._fetching.setdefault(key, _Fetching(now))
            if now < fetching.next_at:
                return []
            has_asked = fetching.next_at > 0
            if not (has_asked and all_live) and now < fetching.since + self._give_up:
                fetching.next_at = now + self._patience
                return [Send(other, Fetch((slot.partition,))) for other in others]
        self._fetching.pop(key, None)
        self._asking.pop(key, None)
        for gap in message.gaps:
            slot.skip(gap.upto, gap.count, gap.until)
        return self.ask(slot, claim, now)
