"""`vote-latest`: releases the newest bucket that 2f+1 of 3f+1 replicas agree on, never an older.

Buckets are skipped when newer ones are agreed upon first: at most once, and up to date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.protocol.gates.ballot import Ballot
from holdfast.protocol.gates.gate import Command, Copy, Release, check_ahead, check_replicas
from holdfast.protocol.gates.vote import check_faults

__all__ = ["VoteLatest"]


class VoteLatest:
    """A gate over `3f+1` replicas (or more) that outvotes `faults` of them and does not wait."""

    def __init__(
        self, replicas: Sequence[str], faults: int = 1, *, first: int = 0, ahead: int = 64
    ) -> None:
        """`ahead`: how many buckets to vote on at once: the newest that can be believed in."""
        self.faults = check_faults("vote-latest", faults)
        self.replicas = check_replicas("vote-latest", replicas, 3 * faults + 1)
        self.ahead = check_ahead("vote-latest", ahead)
        self.next = first
        """Buckets before this one are not released any more."""
        self._quorum = len(self.replicas) - faults
        self._newest = dict.fromkeys(self.replicas, first - 1)
        self._ballots: dict[int, Ballot] = {}
        self._quarantine: set[str] = set()

    @property
    def _believed(self) -> int:
        """The newest bucket that an honest replica has reached: f of them may claim anything."""
        return sorted(self._newest.values(), reverse=True)[self.faults]

    def wants(self, replica: str) -> range:
        """What could still be released: near the newest bucket that can be believed in."""
        if replica not in self.replicas:
            return range(0)
        newest = self._believed
        return range(max(self.next, newest - self.ahead + 1), newest + self.ahead + 1)

    @property
    def ballots(self) -> Mapping[int, Ballot]:
        """On the buckets that are voted on, and on the last ones that are settled."""
        return self._ballots

    def take(self, copy: Copy) -> list[Command]:
        if copy.replica not in self.replicas:
            return []
        self._newest[copy.replica] = max(self._newest[copy.replica], copy.bucket)
        wanted = self.wants(copy.replica)
        for bucket in [bucket for bucket in self._ballots if bucket not in wanted]:
            if bucket < wanted.start - self.ahead or bucket >= wanted.stop:
                del self._ballots[bucket]
        if copy.bucket not in wanted and copy.bucket not in self._ballots:
            return []
        ballot = self._ballots.setdefault(
            copy.bucket, Ballot(len(self.replicas), self._quorum, self._quarantine)
        )
        settled = ballot.agreed is not None
        commands: list[Command] = list(ballot.take(copy))
        if ballot.agreed is not None and not settled and copy.bucket >= self.next:
            self.next = copy.bucket + 1
            commands.append(Release(copy.bucket, ballot.agreed, ballot.holders))
        return commands

    def quarantine(self, replica: str) -> list[Command]:
        """Its votes count no more, but are still judged."""
        self._quarantine.add(replica)
        return []

    def readmit(self, replica: str) -> list[Command]:
        """Its votes on buckets to come count again."""
        self._quarantine.discard(replica)
        return []
