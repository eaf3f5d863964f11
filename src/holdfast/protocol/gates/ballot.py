"""The votes on one bucket: who said what, and whether that settles it.

Used by the gates that vote. 2f+1 of 3f+1 must agree: any two such groups share an honest replica,
so that no two digests of a bucket can both be agreed upon.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from holdfast.protocol.gates.gate import Accuse, Copy

__all__ = ["Ballot"]


@dataclass(slots=True)
class Ballot:
    """The votes of `size` replicas, `quorum` of which settle it."""

    size: int
    quorum: int
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
        digest, count = Counter(self.votes.values()).most_common(1)[0]
        if count < self.quorum:
            return []
        self.agreed = digest
        return self._judge(copy.bucket, list(self.votes))

    def _judge(self, bucket: int, replicas: list[str]) -> list[Accuse]:
        assert self.agreed is not None
        return [
            Accuse(replica, bucket, self.votes[replica], self.agreed)
            for replica in replicas
            if self.votes[replica] != self.agreed
        ]

    @property
    def holders(self) -> tuple[str, ...]:
        """Who said what was agreed upon."""
        return tuple(name for name, digest in self.votes.items() if digest == self.agreed)

    @property
    def is_hung(self) -> bool:
        """Whether nobody who has not voted yet can bring about an agreement any more."""
        if self.agreed is not None:
            return False
        most = max(Counter(self.votes.values()).values(), default=0)
        return most + self.size - len(self.votes) < self.quorum

    def repeat(self) -> None:
        """Forget the votes; those on the next attempt count."""
        self.votes.clear()
        self.attempt += 1
