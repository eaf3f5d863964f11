"""Votes on one bucket, and whether they settle it.

Used by the gates that vote. 2f+1 of 3f+1 must agree: any two such groups share an honest replica,
so that no two digests of a bucket can both be agreed upon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.pipeline.gates.gate import Accuse, Copy


class Stand(StrEnum):
    """Of one replica in one ballot."""

    AGREED = "agreed"
    DISSENTED = "dissented"
    MISSING = "missing"
    WAITING = "waiting"
    """It has voted, and nothing is settled yet."""


@dataclass(slots=True)
class Ballot:
    """The votes of `size` replicas, `quorum` of which settle it. Votes of those in `quarantine` are
    judged, but do not count."""

    size: int
    quorum: int
    quarantine: Set[str] = frozenset()
    attempt: int = 0
    votes: dict[str, bytes] = field(default_factory=dict)
    agreed: bytes | None = None

    def take(self, copy: Copy) -> list[Accuse]:
        """Count a vote, or judge it if all is settled. The first word of a replica counts; if its
        second is another one, it lies to somebody."""
        said = self.votes.get(copy.replica)
        if copy.attempt != self.attempt or said == copy.digest:
            return []
        if said is not None:
            return [Accuse(copy.replica, copy.bucket, copy.digest, said)]
        self.votes[copy.replica] = copy.digest
        if self.agreed is not None:
            return self._judge(copy.bucket, [copy.replica])
        return self.count(copy.bucket)

    def count(self, bucket: int) -> list[Accuse]:
        """Settle it if enough agree, and judge all who have voted."""
        agreed = [digest for digest, count in self._counted.items() if count >= self.quorum]
        if self.agreed is not None or not agreed:
            return []
        self.agreed = agreed[0]
        return self._judge(bucket, list(self.votes))

    @property
    def _counted(self) -> Counter[bytes]:
        return Counter(digest for name, digest in self.votes.items() if name not in self.quarantine)

    def _judge(self, bucket: int, replicas: list[str]) -> list[Accuse]:
        assert self.agreed is not None
        return [
            Accuse(replica, bucket, self.votes[replica], self.agreed)
            for replica in replicas
            if self.votes[replica] != self.agreed
        ]

    def stand_of(self, replica: str) -> Stand:
        said = self.votes.get(replica)
        if said is None:
            return Stand.MISSING
        if self.agreed is None:
            return Stand.WAITING
        return Stand.AGREED if said == self.agreed else Stand.DISSENTED

    @property
    def holders(self) -> tuple[str, ...]:
        """Who said what was agreed upon."""
        return tuple(name for name, digest in self.votes.items() if digest == self.agreed)

    @property
    def is_hung(self) -> bool:
        """Whether nobody who has not voted yet can bring about an agreement any more."""
        return self.is_hung_without(frozenset())

    def is_hung_without(self, absent: Set[str]) -> bool:
        """The same if those that are absent do not vote, unless they have."""
        if self.agreed is not None:
            return False
        counted = self._counted
        absent = absent - self.votes.keys() - self.quarantine
        silent = self.size - len(self.quarantine) - len(absent) - counted.total()
        return max(counted.values(), default=0) + silent < self.quorum

    def withdraw(self, replica: str) -> None:
        """It was mended: what it said before is not held against it."""
        self.votes.pop(replica, None)

    def repeat(self) -> None:
        """Forget the votes; those on the next attempt count."""
        self.votes.clear()
        self.attempt += 1
