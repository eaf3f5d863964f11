"""Heartbeats among the members of a group or layer."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from holdfast.edge.machine.messages import Beat, Payload, Probe, Relayed, Send
from holdfast.groups import Claim, Heard, Members, NodeFailed
from holdfast.groups.detectors import PhiMesh

UNHEARD: Final = 2
"""Periods after which one that is not heard is asked through the root."""
RAREST: Final = 32
"""Periods between two questions to one that does not answer, at most."""


def beat_of(payload: Payload, now: int) -> Beat:
    """The message to a node to which an earlier payload is still on its way: a later one has all
    that is in this, but the sign of life in it cannot wait."""
    return Beat(0, now, payload.life, payload.claims)


@dataclass(frozen=True, slots=True)
class BeatOptions:
    """`period`: of beats; None for none, and nobody is suspected. `threshold`: of phi. `pause`: how
    long a beat may be late without suspicion. `deviation`: the least that is assumed of beats."""

    period: int | None = 100_000
    threshold: float = 8.0
    pause: int = 100_000
    deviation: int = 20_000


class Presence:
    """`root`: through whom those are asked whose beats do not come. One bad link is then no reason
    for two living ones to take over from each other, again and again."""

    def __init__(
        self,
        name: str,
        life: int,
        others: Collection[str],
        options: BeatOptions,
        now: int,
        *,
        root: str | None = None,
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
        self._root = root
        self._direct = dict.fromkeys(others, now)
        """When each was last heard itself."""
        self._relayed: set[str] = set()
        """Those who are heard through the root alone."""
        self._probes: dict[str, tuple[int, int]] = {}
        """By one that is not heard: when it is asked next, and how long after the time before."""

    @property
    def near(self) -> tuple[str, ...]:
        """The living ones that can be spoken to."""
        return tuple(each for each in self.members.live if each not in self._relayed)

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
        probes = self._probe(now, self._period)
        silent = [each for each in self.members.others if self._spoken.get(each, ago) <= ago]
        if not silent:
            return probes
        beat = self._make_beat(claims, now)
        return [*probes, *(Send(other, beat) for other in silent)]

    def _make_beat(self, claims: Iterable[Claim], now: int) -> Beat:
        self._number += 1
        return Beat(self._number, now, self._life, tuple(claims))

    def _probe(self, now: int, period: int) -> list[Send]:
        """Ask those who are not heard, the more rarely the longer they do not answer."""
        if self._root is None:
            return []
        sends = []
        for other in self.members.others:
            if now - self._direct.setdefault(other, now) < UNHEARD * period:
                continue
            at, wait = self._probes.get(other, (now, period))
            if at <= now:
                sends.append(Send(self._root, Probe(self._name, other)))
                self._probes[other] = now + wait, min(2 * wait, RAREST * period)
        return sends

    def answer(self, message: Probe, claims: Iterable[Claim], now: int) -> list[Send]:
        """Somebody does not hear us."""
        if self._root is None or message.node != self._name:
            return []
        beat = self._make_beat(claims, now)
        return [Send(self._root, Relayed(message.asker, self._name, beat))]

    def heard(self, sender: str, life: int, now: int, *, relayed: bool = False) -> Heard:
        """A sign of life: of the sender itself, or through the root."""
        heard = self.members.heard(sender, life, now)
        if heard is Heard.OLD:
            return heard
        if relayed:
            self._relayed.add(sender)
            self._probes[sender] = now, self._period or 0
        else:
            self._direct[sender] = now
            self._relayed.discard(sender)
            self._probes.pop(sender, None)
        return heard

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
