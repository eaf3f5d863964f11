"""`vote`: releases a bucket when 2f+1 of 3f+1 replicas agree on it; every bucket once, in order.

Survives f replicas that lie or are silent. More than f that lie are found out, or stop the stream;
they never get a wrong bucket through, unless 2f+1 of them agree on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.gates.ballot import Ballot
from holdfast.pipeline.gates.gate import (
    Command,
    Copy,
    Giveup,
    Redo,
    Release,
    check_ahead,
    check_replicas,
)


def check_faults(what: str, faults: int) -> int:
    if faults < 1:
        raise InvalidArgumentError(f"{what}: faults is {faults}; give at least 1")
    return faults


class Vote:
    """A gate over `3f+1` replicas (or more) that outvotes `faults` of them."""

    def __init__(
        self,
        replicas: Sequence[str],
        faults: int = 1,
        *,
        first: int = 0,
        ahead: int = 64,
        attempts: int = 3,
    ) -> None:
        """`first`: the bucket to begin with. `ahead`: how many buckets to vote on at once, and for
        how many that are decided to go on judging votes. `attempts`: how often a bucket is
        calculated again before the gate gives up."""
        check_faults("vote", faults)
        self.replicas = check_replicas("vote", replicas, 3 * faults + 1)
        self.ahead = check_ahead("vote", ahead)
        self.attempts = attempts
        self.next = first
        """The first bucket that has not been released."""
        self.stopped = False
        self._quorum = len(self.replicas) - faults
        self._first = first
        self._kept = dict.fromkeys(self.replicas, first)
        """From which bucket on each replica has the stream."""
        self._ballots: dict[int, Ballot] = {}
        self._quarantine: set[str] = set()

    def wants(self, replica: str) -> range:
        """All that it votes on now and this replica has not voted on."""
        if replica not in self.replicas or self.stopped:
            return range(0)
        at = self.next
        while at < self.next + self.ahead and replica in self._votes(at):
            at += 1
        return range(at, self.next + self.ahead)

    @property
    def ballots(self) -> Mapping[int, Ballot]:
        """On the buckets that are voted on, and on the last ones that are settled."""
        return self._ballots

    def _votes(self, bucket: int) -> dict[str, bytes]:
        ballot = self._ballots.get(bucket)
        return {} if ballot is None else ballot.votes

    def take(self, copy: Copy) -> list[Command]:
        oldest = max(self._first, self.next - self.ahead)
        if copy.replica not in self.replicas or self.stopped:
            return []
        if not oldest <= copy.bucket < self.next + self.ahead:
            return []
        ballot = self._ballots.get(copy.bucket)
        if ballot is None:
            if copy.bucket < self.next:
                return []
            ballot = self._ballots[copy.bucket] = self._ballot()
        commands: list[Command] = list(ballot.take(copy))
        if self._is_hung(copy.bucket, ballot):
            commands.append(self._repeat(copy.bucket, ballot))
        return [*commands, *self._release()]

    def _ballot(self) -> Ballot:
        return Ballot(len(self.replicas), self._quorum, self._quarantine)

    def keeps_from(self, replica: str, first: int) -> list[Command]:
        """This replica does not have what is before this bucket, and will not vote on it unless it
        is calculated again."""
        self._kept[replica] = first
        return self._recount()

    def quarantine(self, replica: str) -> list[Command]:
        """Its votes count no more, but are still judged."""
        self._quarantine.add(replica)
        return self._recount()

    def readmit(self, replica: str) -> list[Command]:
        """Its votes count again. Those that settle nothing now are forgotten, for it is read again
        and may say something better."""
        self._quarantine.discard(replica)
        commands = self._recount()
        for ballot in self.ballots.values():
            ballot.withdraw(replica)
        return commands

    def _recount(self) -> list[Command]:
        commands: list[Command] = []
        for bucket, ballot in self._ballots.items():
            commands += ballot.count(bucket)
            if self._is_hung(bucket, ballot) and not self.stopped:
                commands.append(self._repeat(bucket, ballot))
        return [*commands, *self._release()]

    def _is_hung(self, bucket: int, ballot: Ballot) -> bool:
        """What is calculated again can come from a replica that keeps the bucket no longer, so that
        it is waited for after the first attempt."""
        absent = {name for name, first in self._kept.items() if first > bucket}
        return ballot.is_hung_without(frozenset() if ballot.attempt else absent)

    def _repeat(self, bucket: int, ballot: Ballot) -> Command:
        if ballot.attempt >= self.attempts:
            self.stopped = True
            return Giveup(bucket, tuple(ballot.votes.items()))
        ballot.repeat()
        return Redo(bucket, ballot.attempt)

    def _release(self) -> list[Command]:
        released: list[Command] = []
        while (ballot := self._ballots.get(self.next)) is not None and ballot.agreed is not None:
            released.append(Release(self.next, ballot.agreed, ballot.holders))
            self._forget(self.next - self.ahead)
            self.next += 1
        return released

    def _forget(self, bucket: int) -> None:
        self._ballots.pop(bucket, None)
