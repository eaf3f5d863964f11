"""Membership of a group as one member knows it: its own detector, and reports of others.

A node is known by its `life`, which grows with each start: what is said of an earlier life says
nothing of the present one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from holdfast.groups.detectors import PhiMesh


@dataclass(frozen=True, slots=True)
class Claim:
    """A partition belongs to `node`; of two claims that with the larger (epoch, node) stands."""

    partition: int
    epoch: int
    node: str

    @property
    def rank(self) -> tuple[int, str]:
        return self.epoch, self.node


@dataclass(frozen=True, slots=True)
class NodeFailed:
    """I suspect this node, in this life of its."""

    failed: str
    life: int


@dataclass(frozen=True, slots=True)
class Election:
    """Who takes over from `failed`? I would, unless you will."""

    failed: str


@dataclass(frozen=True, slots=True)
class ElectionAck:
    """I stand above you: leave it to me."""

    failed: str


@dataclass(frozen=True, slots=True)
class Leader:
    """I have taken over from `failed`, by these claims."""

    failed: str
    node: str
    claims: tuple[Claim, ...]


GroupMessage = NodeFailed | Election | ElectionAck | Leader


class Heard(Enum):
    """What a sign of life says."""

    KNOWN = "known"
    OLD = "old"
    """It is from an earlier life."""
    BACK = "back"
    """It was held for dead, wrongly."""
    REBORN = "reborn"
    """It has been started again, and knows nothing any more."""


class Members:
    """The others of a group. `doubt`: the word of another that a node is dead counts only when the
    node has not been heard for so long, so that one bad link does not cost it its place."""

    def __init__(self, others: Iterable[str], mesh: PhiMesh, *, doubt: int, now: int) -> None:
        self._mesh = mesh
        self._doubt = doubt
        self._lives = dict.fromkeys(others, 0)
        self._heard = dict.fromkeys(self._lives, now)
        self._down: dict[str, int] = {}

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(sorted(self._lives))

    @property
    def live(self) -> tuple[str, ...]:
        """Those who are not held for dead."""
        return tuple(each for each in self.others if each not in self._down)

    @property
    def down(self) -> tuple[str, ...]:
        return tuple(sorted(self._down))

    def admit(self, node: str, now: int) -> None:
        """One that joins is expected to be heard from now on."""
        if node not in self._lives:
            self._lives[node] = 0
            self._heard[node] = now
            self._mesh.join(node, now)

    def knows(self, node: str) -> bool:
        return node in self._lives

    def is_live(self, node: str) -> bool:
        return node in self._lives and node not in self._down

    def life(self, node: str) -> int:
        return self._lives.get(node, 0)

    def heard(self, node: str, life: int, now: int) -> Heard:
        """A beat has come."""
        known = self._lives.get(node)
        if known is None or life < known:
            return Heard.OLD
        self._heard[node] = now
        self._lives[node] = life
        was_down = self._down.pop(node, None) is not None
        if was_down or life > known:
            # Its silence is no interval of a living one.
            self._mesh.leave(node)
            self._mesh.join(node, now)
        self._mesh.beat(node, now)
        if life > known > 0:
            return Heard.REBORN
        return Heard.BACK if was_down else Heard.KNOWN

    def told(self, node: str, life: int, now: int) -> bool:
        """Another says it is dead; whether that is news, and believed."""
        if not self.is_live(node) or life < self._lives[node]:
            return False
        if now - self._heard[node] < self._doubt:
            return False
        self._down[node] = self._lives[node]
        return True

    def ended(self, node: str) -> bool:
        """Its process is seen to be gone, not only not heard; whether that is news."""
        if not self.is_live(node):
            return False
        self._down[node] = self._lives[node]
        return True

    def suspects(self, now: int) -> list[str]:
        """Those whom the detector suspects since now; each is named once."""
        found = [node for node in sorted(self._mesh.suspects(now)) if self.is_live(node)]
        for node in found:
            self._down[node] = self._lives[node]
        return found

    def next_check(self, now: int) -> int:
        return self._mesh.next_check(now)
