"""Who reads the outputs of a task, wherever it runs: what the gates downstream are to a stage.

They take each bucket once, in order, and nothing of an epoch below the highest that they have heard
of. So a task that runs in two places for a while has outputs of one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.federation.machine import Epoch


@dataclass(slots=True)
class Readers:
    """Those of one task."""

    fence: Epoch = (0,)
    next: int = 0
    hosts: list[str] = field(default_factory=list)
    """Whose output of each bucket was taken."""
    gaps: int = 0

    def publish(self, host: str, epoch: Epoch, bucket: int) -> bool:
        """False: refused."""
        if epoch < self.fence:
            return False
        self.fence = epoch
        if bucket > self.next:
            self.gaps += 1
        elif bucket == self.next:
            self.hosts.append(host)
            self.next += 1
        return True

    def raise_fence(self, epoch: Epoch) -> int | None:
        """The bucket to go on with, or None: refused."""
        if epoch < self.fence:
            return None
        self.fence = epoch
        return self.next
