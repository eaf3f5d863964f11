"""`latest`: releases a copy that is newer than the last one released; never goes back.

For replicas that crash and do not lie, and readers who want what is new: at most once.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.pipeline.gates.gate import Command, Copy, Release, check_replicas

FARTHEST = 2**62


class Latest:
    """A gate that any one of its replicas can feed, and that does not wait for what is missing."""

    def __init__(self, replicas: Sequence[str], *, first: int = 0) -> None:
        self.replicas = check_replicas("latest", replicas, 1)
        self.next = first

    def wants(self, replica: str) -> range:
        return range(self.next, FARTHEST) if replica in self.replicas else range(0)

    def take(self, copy: Copy) -> list[Command]:
        if copy.bucket not in self.wants(copy.replica):
            return []
        self.skip(copy.bucket + 1)
        return [Release(copy.bucket, copy.digest, (copy.replica,))]

    def skip(self, first: int) -> None:
        """Release nothing before this bucket any more."""
        self.next = max(self.next, first)
