"""`sample`: releases each bucket at once from one replica; every n-th is voted on as well.

As fast as having no replicas, and lies are found out later: the gate then says what may be wrong
and goes on with a replica that told the truth.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.gates.ballot import Ballot
from holdfast.protocol.gates.gate import (
    Command,
    Copy,
    Release,
    Split,
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
        self._gone: frozenset[str] = frozenset()
        self._lacking: set[str] = set()
        """Those that were trusted and did not give what comes next."""
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

    def fail(self, replicas: Collection[str]) -> None:
        """These are gone, and no others: if the trusted one is, another takes its place."""
        self._gone = frozenset(replicas)
        self._forgive()
        self._trust_the_best()

    def pass_over(self, rather: Sequence[str] = ()) -> None:
        """The trusted replica does not give what comes next: trust another, of equals one of those
        that are named."""
        self._lacking.add(self.trusted)
        if self._lacking >= set(self.replicas) - self._gone:
            # All have had their turn, and have it again.
            self._lacking = {self.trusted}
        self._trust_the_best(rather)

    def quarantine(self, replica: str) -> list[Command]:
        """Its votes count no more, but are still judged, and it is not trusted."""
        self._quarantine.add(replica)
        self._note_liars({replica})
        self._trust_the_best()
        return []

    def readmit(self, replica: str) -> list[Command]:
        """Its votes count again, and it may be trusted."""
        self._quarantine.discard(replica)
        self._liars.discard(replica)
        for ballot in self.ballots.values():
            ballot.withdraw(replica)
        return []

    def _vote(self, copy: Copy) -> list[Command]:
        if not self._oldest_vote() <= copy.bucket < self.next + self.ahead:
            return []
        ballot = self._ballots.setdefault(
            copy.bucket, Ballot(len(self.replicas), self._quorum, self._quarantine)
        )
        settled, was_hung = ballot.agreed is not None, ballot.is_hung
        accused = ballot.take(copy)
        self._note_liars({each.replica for each in accused})
        commands: list[Command] = list(accused)
        if ballot.agreed is not None and not settled:
            commands += self._settle(copy.bucket, ballot)
        elif ballot.is_hung and not was_hung:
            commands.append(Split(copy.bucket, tuple(ballot.votes.items())))
        self._trust_the_best(ballot.holders)
        return commands

    def _note_liars(self, found: set[str]) -> None:
        self._liars |= found
        self._forgive(found)

    def _forgive(self, found: Collection[str] = ()) -> None:
        """Somebody has to be trusted, of those that are there, if these are enough: whoever was
        found out long ago, but for good reasons."""
        there = set(self.replicas) - self._gone
        if len(there) >= self._quorum and self._liars >= there:
            self._liars = {*found, *self._quarantine}

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
        self._verified = oldest = self._oldest_vote()
        self._right = {bucket for bucket in self._right if bucket >= oldest}
        for bucket in [bucket for bucket in self._ballots if bucket < oldest]:
            self._past[bucket] = self._ballots.pop(bucket)
            self._released.pop(bucket, None)
        for bucket in sorted(self._past)[: -self.ahead]:
            del self._past[bucket]

    def _trust_the_best(self, rather: Sequence[str] = ()) -> None:
        """Of equals whoever is trusted now, then those that are named, then each in turn."""
        at = self.replicas.index(self.trusted)
        in_turn = (*self.replicas[at:], *self.replicas[:at])
        best = min((self.trusted, *rather, *in_turn), key=self._blemishes)
        if best != self.trusted:
            self.trusted = best
            self._waiting.clear()

    def _blemishes(self, replica: str) -> tuple[bool, ...]:
        """The worst first: rather nothing than lies."""
        bad = (self._quarantine, self._liars, self._gone, self._lacking)
        return tuple(replica in each for each in bad)

    def _release(self) -> list[Command]:
        commands: list[Command] = []
        while self.next in self._waiting:
            digest = self._waiting.pop(self.next)
            ballot = self._ballots.get(self.next)
            if ballot is not None and ballot.agreed not in (None, digest):
                # Said before it was readmitted, or nobody else is there: it is not true for that.
                self._waiting.clear()
                self.pass_over(ballot.holders)
                break
            commands.append(Release(self.next, digest, (self.trusted,)))
            if self.next % self.every == 0:
                self._note_released(self.next, digest)
            self.next += 1
            self._lacking.clear()
        return commands

    def _note_released(self, bucket: int, digest: bytes) -> None:
        ballot = self._ballots.get(bucket)
        if ballot is not None and ballot.agreed is not None:
            self._note_right(bucket)
        else:
            self._released[bucket] = self.trusted, digest
        self._forget()
