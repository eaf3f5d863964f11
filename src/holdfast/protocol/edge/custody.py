"""What an owner asks sensors and peers for: events after a take-over or a gap, and lost ones.

A request is repeated until events of its epoch come that follow on. Events that a sensor does not
have any more may still be with a peer, as part of a slot: only what no living peer has either is
given up, and counted.
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.protocol.edge.messages import Fetch, Lost, Resume, Send
from holdfast.protocol.edge.slot import Slot
from holdfast.protocol.edge.slots import Slots
from holdfast.protocol.groups import Claim

__all__ = ["Custody"]

Key = tuple[int, str]


class Custody:
    def __init__(self, slots: Slots, patience: int) -> None:
        self._slots = slots
        self._patience = patience
        self._asking: dict[Key, int] = {}
        self._fetching: dict[Key, int] = {}

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
        for kept in (self._asking, self._fetching):
            for key in [key for key in kept if key[0] == partition]:
                del kept[key]

    def ask(self, slot: Slot, claim: Claim, now: int) -> list[Send]:
        """Ask for what follows, unless that was asked a moment ago."""
        key = slot.partition, slot.sensor
        if self._asking.get(key, now) > now:
            return []
        self._asking[key] = now + self._patience
        floor = self._slots.floor
        message = Resume(slot.partition, claim.epoch, claim.node, slot.offset, floor)
        return [Send(slot.sensor, message)]

    def answered(self, slot: Slot) -> None:
        """What was asked for comes."""
        self._asking.pop((slot.partition, slot.sensor), None)

    def overdue(self, now: int) -> list[Slot]:
        """The slots whose request is to be repeated."""
        found = (self._slots.get(*key) for key, at in sorted(self._asking.items()) if at <= now)
        return [slot for slot in found if slot is not None]

    def lost(
        self, slot: Slot, message: Lost, claim: Claim, peers: Collection[str], now: int
    ) -> list[Send]:
        """The sensor does not have all that follows any more."""
        key = slot.partition, slot.sensor
        if message.after != slot.offset or message.upto <= slot.offset:
            return []
        if peers and message.count:
            if key not in self._fetching:
                self._fetching[key] = now + self._patience
                return [Send(peer, Fetch((slot.partition,))) for peer in sorted(peers)]
            if now < self._fetching[key]:
                return []
        self._fetching.pop(key, None)
        self._asking.pop(key, None)
        slot.skip(message.upto, message.count, message.until)
        return self.ask(slot, claim, now)
