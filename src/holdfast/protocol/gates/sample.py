"""`sample`: releases each bucket at once from one replica; every n-th is voted on as well.

As fast as having no replicas, and lies are found out later: the gate then says what may be wrong
and goes on with a replica that told the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.gates.ballot import Ballot
from holdfast.protocol.gates.gate import (
    Command,
    Copy,
    Release,
    Taint,
    check_ahead,
    check_replicas,
)
from holdfast.protocol.gates.vote import check_faults

__all__ = ["Sample"]


class Sample:
    """A gate that trusts one of `3f+1` replicas (or more) and looks at every `every`-th bucket."""

    def __init__(
        self,
        replicas: Sequence[str],
        faults: int = 1,
        *,
        every: int = 10,
        first: int = 0,
        ahead: int = 64,
    ) -> None:
        check_faults("sample", faults)
        if every < 1:
            raise InvalidArgumentError(f"sample: every is {every}; give at least 1")
        self.replicas = check_replicas("sample", replicas, 3 * faults + 1)
        self.every = every
        self.ahead = check_ahead("sample", ahead)
        self.next = first
        self.trusted = self.replicas[0]
        """The replica whose buckets are released."""
        self._quorum = len(self.replicas) - faults
        self._verified = first
        """Of the buckets before this one nothing is to be found out any more."""
        self._right: set[int] = set()
        """Buckets from there on that were agreed upon as released."""
        self._liars: set[str] = set()
        self._quarantine: set[str] = set()
        self._waiting: dict[int, bytes] = {}
        self._ballots: dict[int, Ballot] = {}
        self._past: dict[int, Ballot] = {}
        """The last of those that nothing depends on any more."""
        self._released: dict[int, tuple[str, bytes]] = {}
        """What was released of the buckets that are voted on, and whose it was."""

    @property
    def ballots(self) -> Mapping[int, Ballot]:
        """On the buckets that are voted on, and on the last ones that are settled."""
        return {**self._past, **self._ballots}

    def wants(self, replica: str) -> range:
        """What is voted on, and of the trusted replica what comes next. A range cannot say every
        n-th: what else is in it is refused."""
        if replica not in self.replicas:
            return range(0)
        return range(self._oldest_vote(), self.next + self.ahead)

    def _oldest_vote(self) -> int:
        return max(self._verified, self.next - self.every * self.ahead)

    def take(self, copy: Copy) -> list[Command]:
        if copy.replica not in self.replicas or copy.attempt:
            # Nothing is ever asked for again here.
            return []
        commands: list[Command] = []
        if copy.bucket % self.every == 0:
            commands += self._vote(copy)
        if copy.replica == self.trusted and self.next <= copy.bucket < self.next + self.ahead:
            self._waiting.setdefault(copy.bucket, copy.digest)
        return [*commands, *self._release()]

    def fail(self, replica: str) -> list[Command]:
        """A replica is gone: if it was the trusted one, another takes its place."""
        if replica == self.trusted:
            self._trust_another({replica} | self._liars)
        return []

    def quarantine(self, replica: str) -> list[Command]:
        """Its votes count no more, but are still judged, and it is not trusted."""
        self._quarantine.add(replica)
        self._liars.add(replica)
        return self.fail(replica)

    def readmit(self, replica: str) -> list[Command]:
        """Its votes count again, and it may be trusted."""
        self._quarantine.discard(replica)
        self._liars.discard(replica)
        return []

    def _vote(self, copy: Copy) -> list[Command]:
        if not self._oldest_vote() <= copy.bucket < self.next + self.ahead:
            return []
        ballot = self._ballots.setdefault(
            copy.bucket, Ballot(len(self.replicas), self._quorum, self._quarantine)
        )
        settled = ballot.agreed is not None
        accused = ballot.take(copy)
        self._note_liars({each.replica for each in accused})
        commands: list[Command] = list(accused)
        if ballot.agreed is not None and not settled:
            commands += self._settle(copy.bucket, ballot)
        if self.trusted in self._liars:
            self._trust_another(self._liars, ballot.holders)
        return commands

    def _note_liars(self, found: set[str]) -> None:
        self._liars |= found
        if found and self._liars.issuperset(self.replicas):
            # Somebody has to be trusted: whoever was found out long ago, but for good reasons.
            self._liars = found | self._quarantine

    def _settle(self, bucket: int, ballot: Ballot) -> list[Command]:
        """Compare what was agreed upon with what was released, if it was."""
        released = self._released.pop(bucket, None)
        if released is None:
            return []
        replica, digest = released
        if digest == ballot.agreed:
            self._note_right(bucket)
            return []
        tainted = Taint(self._verified, self.next - 1, replica)
        self._verified = self.next
        self._forget()
        return [tainted]

    def _note_right(self, bucket: int) -> None:
        self._right.add(bucket)
        while (sampled := -(-self._verified // self.every) * self.every) in self._right:
            self._right.remove(sampled)
            self._verified = sampled + 1
        self._forget()

    def _forget(self) -> None:
        """Let go of votes that nothing depends on any more."""
        oldest = self._oldest_vote()
        self._right = {bucket for bucket in self._right if bucket >= oldest}
        for bucket in [bucket for bucket in self._ballots if bucket < oldest]:
            self._past[bucket] = self._ballots.pop(bucket)
            self._released.pop(bucket, None)
        for bucket in sorted(self._past)[: -self.ahead]:
            del self._past[bucket]

    def _trust_another(self, not_these: set[str], rather: Sequence[str] = ()) -> None:
        others = [name for name in (*rather, *self.replicas) if name not in not_these]
        self.trusted = others[0] if others else self.trusted
        self._waiting.clear()

    def _release(self) -> list[Command]:
        commands: list[Command] = []
        while self.next in self._waiting:
            digest = self._waiting.pop(self.next)
            commands.append(Release(self.next, digest, (self.trusted,)))
            if self.next % self.every == 0:
                self._note_released(self.next, digest)
            self.next += 1
        return commands

    def _note_released(self, bucket: int, digest: bytes) -> None:
        ballot = self._ballots.get(bucket)
        if ballot is not None and ballot.agreed is not None:
            # Else whoever said it would not be trusted now.
            assert ballot.agreed == digest
            self._note_right(bucket)
        else:
            self._released[bucket] = self.trusted, digest
        self._forget()
