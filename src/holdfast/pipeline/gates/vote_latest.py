"""`vote-latest`: releases the newest bucket that 2f+1 of 3f+1 replicas agree on, never an older.

Buckets are skipped when newer ones are agreed upon first, or when nobody can agree on them any
more: at most once, and up to date. No claim of a replica moves the gate: only what was agreed upon
does, what cannot be, and whoever reads it (`skip`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.pipeline.gates.ballot import Ballot
from holdfast.pipeline.gates.gate import Command, Copy, Release, Split, check_ahead, check_replicas
from holdfast.pipeline.gates.vote import check_faults


class VoteLatest:
    """A gate over `3f+1` replicas (or more) that outvotes `faults` of them and does not wait."""

    def __init__(
        self, replicas: Sequence[str], faults: int = 1, *, first: int = 0, ahead: int = 64
    ) -> None:
        """`ahead`: how many buckets to vote on at once, and for how many that are over to go on
        judging votes."""
        check_faults("vote-latest", faults)
        self.replicas = check_replicas("vote-latest", replicas, 3 * faults + 1)
        self.ahead = check_ahead("vote-latest", ahead)
        self.next = first
        """Buckets before this one are not released any more."""
        self._quorum = len(self.replicas) - faults
        self._kept = dict.fromkeys(self.replicas, first)
        """From which bucket on each replica has the stream."""
        self._ballots: dict[int, Ballot] = {}
        self._quarantine: set[str] = set()

    def wants(self, replica: str) -> range:
        """What could still be released."""
        return range(self.next, self.next + self.ahead) if replica in self.replicas else range(0)

    @property
    def ballots(self) -> Mapping[int, Ballot]:
        """On the buckets that are voted on, and on the last ones that are over."""
        return self._ballots

    def take(self, copy: Copy) -> list[Command]:
        if copy.replica not in self.replicas:
            return []
        if copy.bucket in self.wants(copy.replica):
            self._ballots.setdefault(
                copy.bucket, Ballot(len(self.replicas), self._quorum, self._quarantine)
            )
        ballot = self._ballots.get(copy.bucket)
        if ballot is None:
            return []
        was_open = ballot.agreed is None and not ballot.is_hung
        commands: list[Command] = list(ballot.take(copy))
        if was_open and ballot.agreed is not None and copy.bucket >= self.next:
            commands.append(Release(copy.bucket, ballot.agreed, ballot.holders))
            self.skip(copy.bucket + 1)
        elif was_open and ballot.is_hung:
            commands.append(Split(copy.bucket, tuple(ballot.votes.items())))
            self._leave_what_is_hopeless()
        return commands

    def skip(self, first: int) -> None:
        """Release nothing before this bucket any more."""
        self.next = max(self.next, first)
        self._leave_what_is_hopeless()

    def keeps_from(self, replica: str, first: int) -> list[Command]:
        """This replica does not have what is before this bucket, and will not vote on it."""
        self._kept[replica] = first
        self._leave_what_is_hopeless()
        return []

    def _leave_what_is_hopeless(self) -> None:
        """Go on where enough can agree."""
        counted = [self._kept[name] for name in self.replicas if name not in self._quarantine]
        self.next = max(self.next, sorted(counted)[self._quorum - 1])
        while (ballot := self._ballots.get(self.next)) is not None and ballot.is_hung_without(
            {name for name, first in self._kept.items() if first > self.next}
        ):
            self.next += 1
        for bucket in [each for each in self._ballots if each < self.next - self.ahead]:
            del self._ballots[bucket]

    def quarantine(self, replica: str) -> list[Command]:
        """Its votes count no more, but are still judged."""
        self._quarantine.add(replica)
        self._leave_what_is_hopeless()
        return []

    def readmit(self, replica: str) -> list[Command]:
        """Its votes on buckets to come count again."""
        self._quarantine.discard(replica)
        for ballot in self._ballots.values():
            ballot.withdraw(replica)
        return []
