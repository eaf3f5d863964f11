"""Lease for reconciliation: one replica reconciles while another one serves.

A replica that needs to reconcile asks one peer; the peer that says yes promises not to begin
before the other is done, or has not been heard of for a lease. Of two or three replicas no two
reconcile at once; of more, each that does has a peer of its own that serves. A replica that hears
from no peer goes alone, and goes on asking. (Digest of delay-process-correct, §3.8 and §10.6.)

A grant can be withdrawn: after a freeze or a cut the grantor may have found somebody else. Work
only while `granted`; what has been corrected by then stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.messages import (
    AuthGrant,
    AuthReject,
    AuthRelease,
    AuthRequest,
    Message,
    Send,
)


class Stagger:
    """One replica's part. A question is repeated after `retry`, which must be longer than a message
    and its answer take; a promise lasts for a `lease`, some times that long."""

    def __init__(self, me: str, peers: Sequence[str], *, retry: int, lease: int) -> None:
        if me in peers or len(set(peers)) < len(peers):
            raise InvalidArgumentError(
                f"stagger: peers of {me!r} are {list(peers)}; give the other replicas, each once"
            )
        if not 1 <= retry < lease:
            raise InvalidArgumentError(
                f"stagger: retry is {retry} and lease is {lease}; "
                "give a retry of at least 1 and a longer lease"
            )
        self.me = me
        self.retry = retry
        self.lease = lease
        self.granted = False
        self._peers = tuple(peers)
        self._turn = 0
        self._next = -math.inf
        self._rests_until = -math.inf
        self._asked: str | None = None
        self._silent = 0
        self._grantor: str | None = None
        self._promised_to: str | None = None
        self._promised_until = 0

    @property
    def next_wake(self) -> float:
        """When to call `want` again, if the node still needs to reconcile or is at it."""
        if self.granted and not self._peers:
            return math.inf
        return max(0, self._next, 0 if self._promised_to is None else self._promised_until)

    def promised(self, now: int) -> bool:
        """Whether this replica must not begin, for a peer's sake."""
        return self._promised_to is not None and now < self._promised_until

    def want(self, now: int) -> list[Send]:
        """Ask for a grant: the peers in turn, or the grantor for more time. To be called whenever a
        node wakes that needs to reconcile or is at it."""
        if self.promised(now) or now < self._next:
            return []
        if not self.granted:
            self._silent += self._asked is not None
            if self._silent >= len(self._peers):
                self._hold(None)
        if self.granted and not self._peers:
            return []
        self._next = now + self.retry
        return [Send(self._grantor or self._ask_next(), AuthRequest())]

    def finish(self, now: int) -> list[Send]:
        """All is reconciled, or need not be any more. Who has just finished asks for nothing for a
        while, and lets peers go first whatever their names."""
        grantor = self._grantor
        self.granted = False
        self._grantor = self._asked = None
        self._silent = 0
        if self._peers:
            self._next = self._rests_until = now + self.retry
        return [] if grantor is None else [Send(grantor, AuthRelease())]

    def take(
        self, sender: str, message: Message, now: int, *, needs: bool, reconciling: bool
    ) -> list[Send]:
        """A peer's message. `needs`: this node has to reconcile. `reconciling`: it is at it."""
        if sender not in self._peers:
            return []
        match message:
            case AuthRequest():
                return [Send(sender, self._answer(sender, now, needs, reconciling))]
            case AuthGrant():
                return self._accept(sender, needs or reconciling)
            case AuthReject():
                self._refused(sender)
            case AuthRelease() if sender == self._promised_to:
                self._promised_to = None
        return []

    def _answer(
        self, asker: str, now: int, needs: bool, reconciling: bool
    ) -> AuthGrant | AuthReject:
        if not (self.promised(now) and asker == self._promised_to):
            goes_first = needs and self.me < asker and now >= self._rests_until
            if reconciling or self.granted or self.promised(now) or goes_first:
                return AuthReject()
            self._promised_to = asker
            self._asked = None
            self._silent = 0
        self._promised_until = now + self.lease
        return AuthGrant()

    def _accept(self, grantor: str, wanted: bool) -> list[Send]:
        """Hold the grant, or hand it back if it comes too late to be of use."""
        renewed = self.granted and self._grantor in (None, grantor)
        if renewed or (wanted and grantor == self._asked):
            self._hold(grantor)
            return []
        return [Send(grantor, AuthRelease())]

    def _refused(self, peer: str) -> None:
        """A node that went alone was not, and one whose grantor refuses has been forgotten. If the
        refusal is an old one, the promise stands and the next question renews it."""
        self._silent = 0
        if peer == self._asked:
            self._asked = None
        if self.granted and self._grantor in (None, peer):
            self.granted = False
            self._grantor = None

    def _hold(self, grantor: str | None) -> None:
        self.granted = True
        self._grantor = grantor
        self._asked = None
        self._silent = 0

    def _ask_next(self) -> str:
        self._asked = self._peers[self._turn % len(self._peers)]
        self._turn += 1
        return self._asked
