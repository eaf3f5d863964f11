"""What an owner asks sensors and peers for: events after a take-over or a gap, and lost ones.

A request is repeated until events of its epoch come that follow on. Events that a sensor does not
have any more may still be with a peer, as part of a slot: only what no living peer has either is
given up, and counted.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from holdfast.protocol.edge.messages import Fetch, Lost, Resume, Send
from holdfast.protocol.edge.slot import Slot
from holdfast.protocol.edge.slots import Slots
from holdfast.protocol.groups import Claim

__all__ = ["Custody"]

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
