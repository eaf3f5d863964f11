"""Beats among the members of a group or layer, and what follows from their absence."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from holdfast.protocol.detectors import PhiMesh
from holdfast.protocol.edge.messages import Beat, Send
from holdfast.protocol.groups import Claim, Heard, Members, NodeFailed

__all__ = ["BeatOptions", "Presence"]


@dataclass(frozen=True, slots=True)
class BeatOptions:
    """`period`: of beats; None for none, and nobody is suspected. `threshold`: of phi. `pause`: how
    long a beat may be late without suspicion. `deviation`: the least that is assumed of beats."""

    period: int | None = 100_000
    threshold: float = 8.0
    pause: int = 100_000
    deviation: int = 20_000


class Presence:
    def __init__(
        self, name: str, life: int, others: Collection[str], options: BeatOptions, now: int
    ) -> None:
        period = options.period or 1_000_000
        mesh = PhiMesh(
            others,
            period,
            options.threshold,
            now=now,
            min_deviation=options.deviation,
            pause=options.pause,
        )
        self.members = Members(others, mesh, doubt=2 * period, now=now)
        self._mesh = mesh
        self._name = name
        self._life = life
        self._period = options.period
        self._beat_at = now
        self._checked = now
        self._number = 0
        self._spoken: dict[str, int] = {}

    @property
    def due(self) -> int | None:
        return None if self._period is None else self._beat_at

    def phi(self, now: int) -> dict[str, float]:
        """How much each of the others is suspected."""
        return {other: self._mesh.phi(other, now) for other in self.members.others}

    def spoke(self, peers: Iterable[str], now: int) -> None:
        """Something else that is a sign of life has been sent to these."""
        self._spoken.update(dict.fromkeys(peers, now))

    def beat(self, claims: Iterable[Claim], now: int) -> list[Send]:
        """The beats that are due, to the dead too: they may be alive."""
        if self._period is None or now < self._beat_at:
            return []
        self._beat_at = now + self._period
        ago = now - self._period
        silent = [each for each in self.members.others if self._spoken.get(each, ago) <= ago]
        if not silent:
            return []
        self._number += 1
        beat = Beat(self._number, now, self._life, tuple(claims))
        return [Send(other, beat) for other in silent]

    def heard(self, sender: str, life: int, now: int) -> Heard:
        return self.members.heard(sender, life, now)

    def check(self, now: int) -> tuple[list[str], list[Send]]:
        """Who is suspected since now, and the word of it to all others: only what nobody else has
        said already."""
        if self._period is None:
            return [], []
        if now - self._checked > 2 * self._period:
            # It was this node that stood still.
            self._mesh.resume(now)
        self._checked = now
        found = self.members.suspects(now)
        sends = [
            Send(other, NodeFailed(failed, self.members.life(failed)))
            for failed in found
            for other in self.members.live
        ]
        return found, sends

    def told(self, message: NodeFailed, now: int) -> bool:
        """Another suspects a member; whether it is news. Nothing is said about it."""
        if message.failed == self._name:
            return False
        return self.members.told(message.failed, message.life, now)
