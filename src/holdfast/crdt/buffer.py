"""The deltas that wait for each peer, until it is known to have them.

A replica's own changes and what it hears of others are put in with their origin. Because slots
travel whole and only their newest version matters, the delta group of a slot is that newest
version: what waits never grows beyond one slot of each. A peer is sent a slot until it says that it
has it, so a lost payload costs a delay and nothing else. Two things are never sent: what the peer
itself sent (back-propagation), and what came in but was known already (redundant deltas).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from holdfast.crdt.slots import NOTHING, Slot, SlotKey, State, Version, delta, join, news, versions

__all__ = ["Buffer"]

Peer = Any


class Buffer:
    """One replica's state, and how much of it each of its peers is known to have."""

    def __init__(self, me: Peer, peers: Iterable[Peer] = (), *, relay: bool = True) -> None:
        """`relay`: whether what came from one peer goes to the others. In a mesh, where each slot's
        owner speaks to all, it need not."""
        self.me = me
        self.state: State = {}
        self.relay = relay
        self._has: dict[Peer, dict[SlotKey, Version]] = {peer: {} for peer in peers}
        self._origins: dict[SlotKey, Peer] = {}

    @property
    def peers(self) -> Collection[Peer]:
        return self._has.keys()

    def join(self, peer: Peer) -> None:
        """A peer of which nothing is known: it is sent everything."""
        self._has[peer] = {}

    def leave(self, peer: Peer) -> None:
        self._has.pop(peer, None)

    def update(self, change: Mapping[SlotKey, Slot]) -> None:
        """Own slots have moved on, or have been taken over as they are: who updates a slot speaks
        for it."""
        self._put(change, self.me)
        self._origins.update(dict.fromkeys(change, self.me))

    def receive(self, peer: Peer, received: Mapping[SlotKey, Slot]) -> State:
        """A payload of a peer; the part of it that was new."""
        self._note(peer, versions(received))
        return self._put(received, peer)

    def payload(self, peer: Peer) -> State:
        """What this peer is not known to have: its delta group."""
        waiting = delta(self.state, self._has.get(peer, {}))
        if self.relay:
            return waiting
        return {key: slot for key, slot in waiting.items() if self._origins[key] == self.me}

    def ack(self, peer: Peer, known: Mapping[SlotKey, Version]) -> None:
        """The peer says how far it has each slot."""
        self._note(peer, known)

    def origin(self, key: SlotKey) -> Peer:
        """Who brought the newest version of the slot."""
        return self._origins[key]

    def replicated(self, key: SlotKey, copies: int) -> int:
        """The offset up to which at least so many peers are known to have the slot."""
        offsets = sorted((has.get(key, NOTHING)[0] for has in self._has.values()), reverse=True)
        return offsets[copies - 1] if 0 < copies <= len(offsets) else 0

    def drop(self, keys: Iterable[SlotKey]) -> None:
        """These slots are not needed any more."""
        for key in keys:
            self.state.pop(key, None)
            self._origins.pop(key, None)
            for has in self._has.values():
                has.pop(key, None)

    def _put(self, change: Mapping[SlotKey, Slot], origin: Peer) -> State:
        new = news(self.state, change)
        for key, slot in new.items():
            self.state[key] = join(self.state[key], slot) if key in self.state else slot
            self._origins[key] = origin
        return new

    def _note(self, peer: Peer, known: Mapping[SlotKey, Version]) -> None:
        has = self._has.get(peer)
        if has is None:
            return
        for key, version in known.items():
            if version > has.get(key, NOTHING):
                has[key] = version
