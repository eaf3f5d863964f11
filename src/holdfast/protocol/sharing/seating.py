"""Which seats a replica sits in that shares the work of a stage: its own, and those it took over.

Membership, for those whose tuples lie in logs: whoever takes a seat over reads again what its log
still lacks, so there are no records to hand over, and readers see by the vitals who speaks for a
seat. The shell carries what it says, and wakes it when it is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.protocol.sharing.membership import Membership
from holdfast.protocol.sharing.messages import (
    Announce,
    Announced,
    Join,
    Send,
    Snapshot,
    TakeOver,
    View,
    Word,
)
from holdfast.protocol.sharing.plan import Operator, Plan
from holdfast.protocol.sharing.rules import Rules

__all__ = ["Seating"]

STAGE: Final = "stage"
READERS: Final = "readers"
"""Nobody has this name: they need not be told."""


class Seating:
    """`life`: larger at each start. It sits nowhere before it has heard its colleagues, or nobody
    has answered for a while."""

    def __init__(
        self, me: str, replicas: Sequence[str], rules: Rules, *, life: int, now: int
    ) -> None:
        plan = Plan([Operator(STAGE, tuple(replicas), (READERS,)), Operator(READERS, (READERS,))])
        self.me = me
        self._members = Membership(me, plan, rules, max(1, life), now)
        self._nudge = rules.nudge
        self._next_nudge = now

    @property
    def seats(self) -> tuple[int, ...]:
        """Where it sits now, by number from 0."""
        members = self._members
        if not members.is_active:
            return ()
        own = members.own
        return tuple(at for at, _ in enumerate(own.replicas) if own.sitter(at) == self.me)

    @property
    def due(self) -> int:
        """When to wake it next."""
        if not self._members.is_active:
            return self._members.due
        return min(self._members.due, self._next_nudge)

    def receive(self, sender: str, word: Word, now: int) -> list[Send]:
        members = self._members
        if sender not in members.own.replicas or sender == self.me:
            return []
        if isinstance(word, TakeOver) and word.failed not in members.own.replicas:
            return []
        sends: list[Send] = []
        match word:
            case Join():
                if members.welcome(sender, word.life, now):
                    views = (members.view(STAGE),)
                    sends.append(Send(sender, Snapshot(word.life, views, (), (), ())))
            case Snapshot():
                if not members.is_active and word.life == members.life:
                    for view in word.views:
                        members.learn(view)
                    members.met(sender, now)
            case View():
                members.learn(word)
            case _:
                if isinstance(word, Announce):
                    members.learn(word.view)
                elif not isinstance(word, Announced):
                    members.learn(View(STAGE, word.claims))
                self._step_aside(now)
                sends += members.receive(sender, word, now)
        self._step_aside(now)
        return [*sends, *self._return(now)]

    def wake(self, now: int) -> list[Send]:
        if not self._members.is_active:
            return self._return(now) or self._members.join(now)
        return [*_to_colleagues(self._members.wake(now)), *self._remind(now)]

    def _remind(self, now: int) -> list[Send]:
        """Tell those whose seats others have: nobody pings them, and if they were only cut off they
        think the same of us."""
        if now < self._next_nudge:
            return []
        self._next_nudge = now + self._nudge
        view = self._members.view(STAGE)
        gone = set(self._members.own.replicas) - set(self._members.own.live)
        return [Send(name, view) for name in sorted(gone)]

    def _return(self, now: int) -> list[Send]:
        """Take my seat when I know enough."""
        if not self._members.may_return(now):
            return []
        self._members.come_back(now)
        return _to_colleagues(self._members.wake(now))

    def _step_aside(self, now: int) -> None:
        """If another has my seat, or I had it in a later life by a clock that was set back."""
        members = self._members
        if members.is_fenced:
            members.life = max(members.life, members.own.life(self.me) or 0)
            members.fence(now)


def _to_colleagues(sends: list[Send]) -> list[Send]:
    return [send for send in sends if send.to != READERS]
