"""Liveness and ownership in a group as one child sees them: detection, election, claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from holdfast.edge.machine.heartbeats import BeatOptions, Presence
from holdfast.edge.machine.messages import Send
from holdfast.groups import (
    Claim,
    Election,
    ElectionAck,
    Heard,
    Leader,
    NodeFailed,
    Outcome,
    Ownership,
    Succession,
)

BACK_OFF_PERIODS: Final = 16, 64, 256, 1_024
"""Beats that a member held for dead is left what it has, after it took from us once, twice, and so
on: it lives, and only the sensors hear it."""


class Tenure:
    def __init__(
        self,
        name: str,
        life: int,
        members: Sequence[str],
        ownership: Ownership,
        succession_of: Callable[[Sequence[str]], Succession],
        options: BeatOptions,
        now: int,
        *,
        root: str | None = None,
    ) -> None:
        self.name = name
        others = [member for member in members if member != name]
        self.presence = Presence(name, life, others, options, now, root=root)
        self.ownership = ownership
        self.takeovers = 0
        """Partitions of dead nodes."""
        self.reinstatements = 0
        """Partitions that came back."""
        self.own: dict[int, Claim] = {}
        """What is ours; another dictionary after every change."""
        self._succession_of = succession_of
        self._succession = succession_of(members)
        self._period = options.period
        self._contests: dict[str, tuple[int, int]] = {}
        """By member held for dead: how often it took from us, and until when it is left alone."""
        self._renew()

    @property
    def live(self) -> tuple[str, ...]:
        return self.presence.members.live

    @property
    def near(self) -> tuple[str, ...]:
        """Those of them that are heard themselves, not through the root alone."""
        return self.presence.near

    @property
    def down(self) -> tuple[str, ...]:
        return self.presence.members.down

    def due(self, now: int) -> int | None:
        check = None if self._period is None else self.presence.members.next_check(now)
        waits = (until for _, until in self._contests.values() if until > now)
        times = (self.presence.due, check, self._succession.due, *waits)
        return min((time for time in times if time is not None), default=None)

    def wake(self, now: int) -> list[Send]:
        """Beats, suspicions, elections that are over, and partitions of the dead that nobody has
        taken, because a taker died or was not told."""
        sends = self.presence.beat(self.ownership.claims, now)
        sends += self.presence.check(now)[1]
        sends += self._do(self._succession.wake(self.live, now))
        for failed in self.down:
            sends += self._start(failed, now)
        return sends

    def heard(
        self, sender: str, life: int, claims: Iterable[Claim], now: int, *, relayed: bool = False
    ) -> Heard:
        heard = self.presence.heard(sender, life, now, relayed=relayed)
        if heard in (Heard.BACK, Heard.REBORN):
            self._succession.settled(sender)
            self._contests.pop(sender, None)
        if heard is not Heard.OLD:
            self.offer(claims, now)
        return heard

    def receive(
        self, sender: str, message: NodeFailed | Election | ElectionAck | Leader, now: int
    ) -> list[Send]:
        match message:
            case NodeFailed(failed):
                return self._start(failed, now) if self.presence.told(message, now) else []
            case Leader(failed, _, claims):
                self._succession.settled(failed)
                self.offer(claims, now)
                return []
            case Election(failed) if not self.ownership.of(failed):
                # It is settled, and the one who asks does not know.
                return [Send(sender, Leader(failed, self.name, self.ownership.claims))]
            case Election(failed) if self.presence.members.is_live(failed):
                # It is heard here: one that does not hear it may not make others take from it.
                return []
            case _:
                return self._do(self._succession.receive(sender, message, self.live, now))

    def ended(self, node: str, now: int) -> list[Send]:
        """Whoever carries messages has seen that a member's process is gone: nobody needs to wait
        for beats that cannot come. Should that be wrong, the next beat brings it back."""
        self._contests.pop(node, None)
        return self._start(node, now) if self.presence.members.ended(node) else []

    def admit(self, members: Sequence[str], homes: Mapping[int, str], now: int) -> None:
        """There are more of us now. Elections begin again: the newcomer may win them."""
        for member in members:
            if member != self.name:
                self.presence.members.admit(member, now)
        self.ownership.rehome(homes)
        self._succession = self._succession_of(members)

    def offer(self, claims: Iterable[Claim], now: int) -> None:
        """What others say who owns what."""
        news = [claim for claim in claims if self.ownership.offer(claim)]
        if not news:
            return
        for node in {claim.node for claim in news if claim.partition in self.own}:
            if not self.presence.members.is_live(node):
                self._back_off(node, now)
        self._renew()

    def _back_off(self, node: str, now: int) -> None:
        """One that is held for dead has taken from us: to take it back would go on for ever."""
        count = self._contests.get(node, (0, 0))[0] + 1
        periods = BACK_OFF_PERIODS[min(count, len(BACK_OFF_PERIODS)) - 1]
        self._contests[node] = count, now + periods * (self._period or 0)

    def reinstate(self, owner: str, partitions: Iterable[int]) -> list[Send]:
        """We have all that the present owner has of these: those that were ours at first are ours
        again."""
        given = set(partitions)
        back = [
            partition
            for partition in self.ownership.homes_of(self.name)
            if partition in given and self.ownership.owner(partition) == owner
        ]
        self.reinstatements += len(back)
        return self._claim(self.name, back)

    def _start(self, failed: str, now: int) -> list[Send]:
        until = self._contests.get(failed, (0, 0))[1]
        if now < until or not self.ownership.of(failed):
            return []
        return self._do(self._succession.start(failed, self.live, now))

    def _do(self, outcome: Outcome) -> list[Send]:
        sends = [Send(to, message) for to, message in outcome.sends]
        for failed in outcome.won:
            theirs = self.ownership.of(failed)
            taken = [each for each in theirs if self._succession.takes(each, self.live)]
            self.takeovers += len(taken)
            sends += self._claim(failed, taken)
        return sends

    def _claim(self, failed: str, partitions: Sequence[int]) -> list[Send]:
        if not partitions:
            return []
        claims = tuple(self.ownership.take(partition, self.name) for partition in partitions)
        self._renew()
        return [Send(other, Leader(failed, self.name, claims)) for other in self.live]

    def _renew(self) -> None:
        mine = self.ownership.of(self.name)
        self.own = {partition: self.ownership.claim(partition) for partition in mine}
