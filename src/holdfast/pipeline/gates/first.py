"""`first`: releases a bucket when its first copy arrives; every bucket once, in order.

For replicas that crash and do not lie: copies are not compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.pipeline.gates.gate import Command, Copy, Release, check_ahead, check_replicas


class First:
    """A gate that any one of its replicas can feed."""

    def __init__(self, replicas: Sequence[str], *, first: int = 0, ahead: int = 64) -> None:
        self.replicas = check_replicas("first", replicas, 1)
        self.ahead = check_ahead("first", ahead)
        self.next = first
        self._waiting: dict[int, Copy] = {}

    def wants(self, replica: str) -> range:
        if replica not in self.replicas:
            return range(0)
        return range(self.next, self.next + self.ahead)

    def take(self, copy: Copy) -> list[Command]:
        if copy.bucket not in self.wants(copy.replica):
            return []
        self._waiting.setdefault(copy.bucket, copy)
        released: list[Command] = []
        while (waiting := self._waiting.pop(self.next, None)) is not None:
            released.append(Release(self.next, waiting.digest, (waiting.replica,)))
            self.next += 1
        return released
