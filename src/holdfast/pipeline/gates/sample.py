"""`sample`: releases each bucket at once from one replica; one in `every` is voted on as well.

A bucket waits for one replica, not for 2f+1. That is all it saves: every copy is read and hashed,
so rows/s are those of `vote` (`make bench PART=votes`). Lies are found later: the gate then says
what may be wrong and goes on with a replica that told the truth.

The samples are the secret of the reader: each bucket is drawn by itself, with probability 1/every,
by a keyed hash of its number. All copies of all buckets are read, so nothing that the reader asks
for depends on the draw; it shows in votes and acknowledgements only once the bucket is released.
Draws are independent, so what was sampled before says nothing about the next bucket. A replica that
lies in n buckets is therefore found with probability 1 - (1 - 1/every)^n, whatever it knows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.gates.ballot import Ballot
from holdfast.pipeline.gates.gate import (
    Accuse,
    Command,
    Copy,
    Release,
    Split,
    Taint,
    check_ahead,
    check_replicas,
)
from holdfast.pipeline.gates.vote import check_faults

KEY_BYTES: Final = 32
"""Length of the secret key of a reader, in bytes."""


def is_drawn(key: bytes, every: int, bucket: int) -> bool:
    """Whether this key draws the bucket as a sample: one in `every`, each by itself."""
    drawn = blake2b(b"%d" % bucket, key=key, digest_size=8).digest()
    return int.from_bytes(drawn) * every < 1 << 64


class Sample:
    """A gate that trusts one of `3f+1` replicas (or more) and looks at one bucket in `every`."""

    def __init__(
        self,
        replicas: Sequence[str],
        faults: int = 1,
        *,
        key: bytes,
        every: int = 10,
        first: int = 0,
        ahead: int = 64,
    ) -> None:
        """`key`: the secret that draws the samples; whoever has it can lie unnoticed."""
        check_faults("sample", faults)
        if len(key) != KEY_BYTES:
            raise InvalidArgumentError(
                f"sample: the key has {len(key)} bytes; give {KEY_BYTES} random ones"
            )
        if every < 1:
            raise InvalidArgumentError(f"sample: every is {every}; give at least 1")
        self.replicas = check_replicas("sample", replicas, 3 * faults + 1)
        self.every = every
        self.ahead = check_ahead("sample", ahead)
        self.next = first
        self.trusted = self.replicas[0]
        """The replica whose buckets are released."""
        self._key = key
        self._quorum = len(self.replicas) - faults
        self._verified = first
        """Up to here the last sample was right; a lie found later taints what comes after."""
        self._givers: dict[str, int] = {}
        """Those whose buckets were released, and the last bucket of each."""
        self._liars: set[str] = set()
        self._quarantine: set[str] = set()
        self._gone: frozenset[str] = frozenset()
        self._lacking: set[str] = set()
        """Those that were trusted and did not give what comes next."""
        self._waiting: dict[int, bytes] = {}
        self._ballots: dict[int, Ballot] = {}
        self._past: dict[int, Ballot] = {}
        """The last of those that nothing depends on any more."""
        self._samples: dict[int, tuple[str, bytes] | None] = {}
        """Samples that were released, in order, from the first that is not agreed upon: whose copy
        it was, None if it is agreed upon."""

    @property
    def ballots(self) -> Mapping[int, Ballot]:
        """On samples that are released, and on the last ones that are settled. Those before their
        release are secret: who sees them would know when to tell the truth."""
        ballots = {**self._past, **self._ballots}
        return {bucket: ballot for bucket, ballot in ballots.items() if bucket < self.next}

    @property
    def reach(self) -> int:
        """Buckets from the oldest that can be voted on to the next one to release: a release that
        is further ahead of the other replicas would never be compared."""
        return self.every * self.ahead

    def is_sampled(self, bucket: int) -> bool:
        return is_drawn(self._key, self.every, bucket)

    def wants(self, replica: str) -> range:
        """What is voted on, and of the trusted replica what comes next. All buckets of it are read,
        not the samples only: else the liar would know which they are."""
        if replica not in self.replicas:
            return range(0)
        return range(self._oldest_vote(), self.next + self.ahead)

    def _oldest_vote(self) -> int:
        return max(next(iter(self._samples), self.next), self.next - self.reach)

    def take(self, copy: Copy) -> list[Command]:
        if copy.replica not in self.replicas or copy.attempt:
            # Nothing is ever asked for again here.
            return []
        commands: list[Command] = []
        if self.is_sampled(copy.bucket):
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
        for ballot in (*self._past.values(), *self._ballots.values()):
            ballot.withdraw(replica)
        return []

    def _vote(self, copy: Copy) -> list[Command]:
        if copy.bucket in self._past:
            return self._judge_late(copy)
        if not self._oldest_vote() <= copy.bucket < self.next + self.ahead:
            return []
        ballot = self._ballots.setdefault(
            copy.bucket, Ballot(len(self.replicas), self._quorum, self._quarantine)
        )
        settled, was_hung = ballot.agreed is not None, ballot.is_hung
        accused = ballot.take(copy)
        self._note_liars({each.replica for each in accused})
        commands: list[Command] = [*accused, *self._taint(accused)]
        if ballot.agreed is not None and not settled:
            commands += self._settle(copy.bucket, ballot)
        elif ballot.is_hung and not was_hung:
            commands.append(Split(copy.bucket, tuple(ballot.votes.items())))
        self._trust_the_best(ballot.holders)
        return commands

    def _judge_late(self, copy: Copy) -> list[Command]:
        """Judge a vote on what is settled: the slowest replica may be the one that lies."""
        past = self._past[copy.bucket]
        if past.agreed is None:
            return []
        accused = past.take(copy)
        self._note_liars({each.replica for each in accused})
        commands = [*accused, *self._taint(accused)]
        self._trust_the_best(past.holders)
        return commands

    def _taint(self, accused: Sequence[Accuse]) -> list[Command]:
        """Taint what was released since the last right sample if some of it is of the accused,
        whether or not the bucket in which they were found out was released."""
        for each in accused:
            if self._givers.get(each.replica, -1) >= self._verified:
                return [self._taint_by(each.replica)]
        return []

    def _taint_by(self, replica: str) -> Taint:
        tainted = Taint(self._verified, self.next - 1, replica)
        self._verified = self.next
        self._samples.clear()
        self._forget()
        return tainted

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
        released = self._samples.get(bucket)
        if released is None:
            return []
        replica, digest = released
        if digest == ballot.agreed:
            self._samples[bucket] = None
            self._forget()
            return []
        return [self._taint_by(replica)]

    def _forget(self) -> None:
        """Let go of votes that nothing depends on any more."""
        while self._samples:
            bucket, released = next(iter(self._samples.items()))
            if released is not None and bucket >= self.next - self.reach:
                break
            del self._samples[bucket]
            self._verified = bucket + 1
        oldest = self._oldest_vote()
        for bucket in [bucket for bucket in self._ballots if bucket < oldest]:
            self._past[bucket] = self._ballots.pop(bucket)
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
            self._givers[self.trusted] = self.next
            if self.is_sampled(self.next):
                self._note_released(self.next, digest)
            self.next += 1
            self._lacking.clear()
        self._forget()
        return commands

    def _note_released(self, bucket: int, digest: bytes) -> None:
        ballot = self._ballots.get(bucket)
        is_right = ballot is not None and ballot.agreed is not None
        self._samples[bucket] = None if is_right else (self.trusted, digest)
