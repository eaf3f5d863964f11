"""What an owner has told its peers of its slots, and what they have said they have."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.protocol.edge.messages import Payload, PayloadAck, Send, SlotDelta
from holdfast.protocol.edge.slot import Slot
from holdfast.protocol.edge.slots import Slots
from holdfast.protocol.groups import Claim

__all__ = ["Replication"]

Key = tuple[int, str]
Has = tuple[int, int, int]
NOTHING: Has = (0, 0, 0)


class Replication:
    """Slots are sent to a peer, as far as it lacks them, at every cut until it has said that it has
    them. What a peer says last counts, not the most it ever said: it may have lost it."""

    def __init__(self) -> None:
        self._number = 0
        self._has: dict[str, dict[Key, Has]] = {}
        self._safe: dict[Key, int] = {}

    def forget(self, peer: str) -> None:
        """It has been started again, and has nothing."""
        self._has.pop(peer, None)

    def release(self, partition: int) -> None:
        """The partition is no longer ours."""
        for has in self._has.values():
            for key in [key for key in has if key[0] == partition]:
                del has[key]
        self._safe = {key: at for key, at in self._safe.items() if key[0] != partition}

    def cut(self, slots: Slots, claims: Sequence[Claim], peers: Collection[str]) -> list[Send]:
        """A payload for each peer; peers that lack the same get the same."""
        own = [slot for claim in claims for slot in slots.of(claim.partition)]
        for slot in own:
            slot.mark()
        self._number += 1
        versions = tuple(slot.version for slot in own)
        known: dict[tuple[int, ...], Payload] = {}
        deltas: dict[tuple[int, str, int], SlotDelta] = {}
        sends = []
        for peer in peers:
            has = self._has.get(peer, {})
            lacks: list[SlotDelta] = []
            for slot in own:
                offset, boundary, lost = has.get((slot.partition, slot.sensor), NOTHING)
                if (offset, boundary) < (slot.offset, slot.boundary):
                    since = 0 if lost or slot.lost else offset
                    base = (slot.partition, slot.sensor, since)
                    if base not in deltas:
                        deltas[base] = slot.delta(since)
                    lacks.append(deltas[base])
            key = tuple(id(delta) for delta in lacks)
            payload = known.get(key)
            if payload is None:
                payload = Payload(
                    self._number,
                    tuple(claims),
                    tuple(lacks),
                    versions,
                    tuple(slots.queries),
                    dict(slots.freed),
                )
                known[key] = payload
            sends.append(Send(peer, payload))
        return sends

    def ack(self, peer: str, message: PayloadAck) -> None:
        has = self._has.setdefault(peer, {})
        for each in message.versions:
            has[each.partition, each.sensor] = each.offset, each.boundary, each.lost

    def safe(self, slot: Slot, peers: Collection[str], floor: int) -> int | None:
        """The offset up to which nobody will ask for events of a slot again; None if that is not
        news: all living peers have it, or the root has all panes it is in."""
        key = slot.partition, slot.sensor
        offset = slot.done(floor)
        if peers:
            least = min(self._has.get(peer, {}).get(key, NOTHING)[0] for peer in peers)
            offset = max(offset, min(least, slot.offset))
        if offset <= self._safe.get(key, 0):
            return None
        self._safe[key] = offset
        return offset
