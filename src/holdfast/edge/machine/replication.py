"""Replication of an owner's slots to its peers, by acknowledged intervals.

Slots are sent to a peer, as far as it lacks them, at every cut until it has said that it has them.
Peers acknowledge cuts, by their numbers, with the payloads that they send themselves. All who are
about as far get the same payload, based on the least that any of them has, so that it is made and
encoded once: what a peer has already is the part of it that is dropped there. Nothing goes back to
where it came from, for only owners speak of a slot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from holdfast.edge.machine.messages import Ack, Payload, Send, SlotDelta
from holdfast.edge.machine.slots import Slot, Slots
from holdfast.groups import Claim

RECENT: Final = 8
"""Peers that are no more cuts behind than this get the same."""
STEADY: Final = 8
"""The base of what they get moves on by so many at once."""
REMEMBERED: Final = 64
"""Cuts; a peer that is further behind is sent all."""

Key = tuple[int, str]
Has = tuple[int, int, int]
NOTHING: Final[Has] = (0, 0, 0)


class Replication:
    def __init__(self, life: int) -> None:
        self._life = life
        self._number = 0
        self._cuts: dict[int, dict[Key, Has]] = {0: {}}
        """How far each slot was."""
        self._acked: dict[str, int] = {}
        self._heard: dict[str, int] = {}
        self._received: dict[str, Ack] = {}
        self._safe: dict[Key, int] = {}

    # As an owner.

    def cut(
        self,
        own: Sequence[Slot],
        claims: tuple[Claim, ...],
        slots: Slots,
        peers: Collection[str],
    ) -> list[Send]:
        """A payload of our own slots for each peer."""
        for slot in own:
            slot.mark()
        self._number += 1
        bases = {peer: self._base(peer) for peer in peers}
        recent = self._number - RECENT
        common = min((base for base in bases.values() if base >= recent), default=0)
        # The same for a while, so that the next payload replaces this one.
        common -= common % STEADY
        if common not in self._cuts:
            common = 0
        made: dict[int, Payload] = {}
        sends = []
        for peer, base in bases.items():
            base = common if base >= recent else base
            payload = made.get(base)
            if payload is None:
                payload = made[base] = Payload(
                    self._number,
                    base,
                    self._life,
                    claims,
                    tuple(_lacks(own, self._cuts[base])),
                    tuple(slots.queries),
                    dict(slots.freed),
                    self._received,
                )
            sends.append(Send(peer, payload))
        self._remember(own)
        return sends

    def _base(self, peer: str) -> int:
        """The last cut that the peer is known to have."""
        acked = self._acked.get(peer, 0)
        return acked if acked in self._cuts else 0

    def _remember(self, own: Collection[Slot]) -> None:
        cuts = self._cuts
        cuts[self._number] = {
            (slot.partition, slot.sensor): (slot.offset, slot.boundary, slot.lost) for slot in own
        }
        cuts.pop(self._number - REMEMBERED, None)
        cuts[0] = {}

    def release(self, partition: int) -> None:
        """The partition is no longer ours."""
        for cut in self._cuts.values():
            for key in [key for key in cut if key[0] == partition]:
                del cut[key]
        self._safe = {key: at for key, at in self._safe.items() if key[0] != partition}

    def safe(
        self,
        own: Sequence[Slot],
        peers: Collection[str],
        floor: int,
        leaving: Collection[str] = (),
    ) -> list[tuple[Slot, int, int]]:
        """The slots of which more is safe than before, up to which offset and boundary: all living
        peers have it, or the root has all panes it is in. Nobody will ask for its events again.
        Sensors that are `leaving` wait for the boundary alone."""
        cuts = [self._cuts[base] for base in {self._base(peer) for peer in peers}]
        found = []
        for slot in own:
            key = slot.partition, slot.sensor
            offset, boundary = slot.done(floor), floor
            if cuts:
                least = min(cut.get(key, NOTHING)[0] for cut in cuts)
                offset = max(offset, min(least, slot.offset))
                boundary = max(boundary, min(cut.get(key, NOTHING)[1] for cut in cuts))
            offset = max(offset, self._safe.get(key, 0))
            if offset > self._safe.get(key, 0) or slot.sensor in leaving:
                self._safe[key] = offset
                found.append((slot, offset, boundary))
        return found

    # As a peer.

    def has_base(self, peer: str, message: Payload) -> bool:
        """Whether all is here that a payload is based on: what it leaves out was in others, and
        those a former life of ours may have got."""
        ack = self._received.get(peer)
        return not message.base or (
            ack is not None and ack.life == message.life and ack.number >= message.base
        )

    def heard(self, me: str, peer: str, message: Payload, *, has_all: bool) -> None:
        """A payload of a peer has been joined, and all that is in it is here, or not: then all is
        asked for, whole. One that was overtaken says nothing more."""
        if message.number <= self._heard.get(peer, 0):
            return
        self._heard[peer] = message.number
        # Payloads that have left hold the dictionary as it was.
        number = message.number if has_all else 0
        self._received = {**self._received, peer: Ack(message.life, number)}
        ack = message.acks.get(me)
        if ack is not None and ack.life == self._life:
            self._acked[peer] = ack.number

    def forget(self, peer: str) -> None:
        """It has been started again, and has nothing."""
        self._acked.pop(peer, None)
        self._heard.pop(peer, None)


def _lacks(own: Collection[Slot], has: Mapping[Key, Has]) -> list[SlotDelta]:
    """What is new since then. Copies that have lost something can only be replaced as a whole."""
    deltas = []
    for slot in own:
        offset, boundary, lost = has.get((slot.partition, slot.sensor), NOTHING)
        if (offset, boundary, lost) != (slot.offset, slot.boundary, slot.lost):
            deltas.append(slot.delta(0 if lost or slot.lost else offset))
    return deltas
