"""`share`: releases a bucket when its owner delivered it, or who took over from the owner.

For replicas that share the work: every bucket is calculated by one of them, and no copies are
compared. Who sits in which seat is told by claims, as the replicas tell each other; what one
delivers after it has been taken over from is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.gates.gate import Command, Copy, Release, check_ahead, check_replicas
from holdfast.protocol.sharing.books import Book, Claim
from holdfast.tuples import shard_of

__all__ = ["Share"]

ROUTINGS = ("round-robin", "hash")


class Share:
    """A gate to which each replica gives the buckets of its seat, and of those it took over."""

    def __init__(
        self,
        replicas: Sequence[str],
        *,
        routing: str = "round-robin",
        first: int = 0,
        ahead: int = 64,
    ) -> None:
        """`routing`: how buckets are divided: one after the other, or by a hash of their number."""
        if routing not in ROUTINGS:
            raise InvalidArgumentError(
                f"share: routing is {routing!r}; give {' or '.join(map(repr, ROUTINGS))}"
            )
        self.replicas = check_replicas("share", replicas, 1)
        self.ahead = check_ahead("share", ahead)
        self.routing = routing
        self.next = first
        """The first bucket that has not been released."""
        self._book = Book(self.replicas)
        self._waiting: dict[int, Copy] = {}

    def owner(self, bucket: int) -> str:
        """Who has to deliver it, as far as is known here."""
        seats = len(self.replicas)
        by_turns = self.routing == "round-robin"
        return self._book.sitter(bucket % seats if by_turns else shard_of(bucket, seats))

    def wants(self, replica: str) -> range:
        """A range cannot say whose turn it is: what is not its own in it is refused."""
        if replica not in self.replicas or self._book.life(replica) is None:
            return range(0)
        return range(self.next, self.next + self.ahead)

    def take(self, copy: Copy) -> list[Command]:
        if copy.bucket not in self.wants(copy.replica) or self.owner(copy.bucket) != copy.replica:
            return []
        self._waiting.setdefault(copy.bucket, copy)
        released: list[Command] = []
        while (waiting := self._waiting.pop(self.next, None)) is not None:
            released.append(Release(self.next, waiting.digest, (waiting.replica,)))
            self.next += 1
        return released

    def learn(self, claims: Iterable[Claim]) -> bool:
        """The claims of a take-over or a reinstatement, by seat; whether they are news. What one
        who is fenced had delivered and waits here is to be had of the other: he can be read."""
        if not self._book.learn(claims):
            return False
        for bucket, copy in list(self._waiting.items()):
            if self._book.life(copy.replica) is None:
                del self._waiting[bucket]
        return True
