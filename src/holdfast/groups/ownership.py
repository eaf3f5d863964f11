"""Ownership of partitions as one member knows it: a table of claims.

Tables that have seen the same claims are equal, in whatever order they came and however often: the
larger (epoch, node) stands. So two takers of a partition are one again as soon as they talk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.groups.membership import Claim


class Ownership:
    def __init__(self, home: Iterable[Claim]) -> None:
        """`home`: whose each partition is at first, and goes back to when its node comes back."""
        self._claims = {claim.partition: claim for claim in home}
        self._home = {claim.partition: claim.node for claim in self._claims.values()}

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All of them, by partition."""
        return tuple(self._claims[partition] for partition in sorted(self._claims))

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(sorted(self._claims))

    def claim(self, partition: int) -> Claim:
        return self._claims[partition]

    def owner(self, partition: int) -> str:
        return self._claims[partition].node

    def home(self, partition: int) -> str:
        return self._home[partition]

    def of(self, node: str) -> tuple[int, ...]:
        """What a node owns."""
        return tuple(p for p in sorted(self._claims) if self._claims[p].node == node)

    def homes_of(self, node: str) -> tuple[int, ...]:
        """What a node owned at first."""
        return tuple(p for p in sorted(self._home) if self._home[p] == node)

    def rehome(self, homes: Mapping[int, str]) -> None:
        """Partitions are to go back to others from now on: a member has joined."""
        self._home.update({p: node for p, node in homes.items() if p in self._claims})

    def offer(self, claim: Claim) -> bool:
        """Whether the claim is news and stands."""
        known = self._claims.get(claim.partition)
        if known is None or claim.rank <= known.rank:
            return False
        self._claims[claim.partition] = claim
        return True

    def take(self, partition: int, node: str) -> Claim:
        """A claim of the next epoch."""
        claim = Claim(partition, self._claims[partition].epoch + 1, node)
        self._claims[partition] = claim
        return claim
