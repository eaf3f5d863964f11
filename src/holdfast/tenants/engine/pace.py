"""Size of batches while several tenants are active, by how long batches really take.

Work is estimated from documents; what it takes depends on the machine, the store and its load. An
entry waits for the batch that runs and for its own, so with other tenants' work in both these must
not be much longer than a batch with next to nothing in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Pace"]

LONGER: Final = 1.6
"""So many times as long as an almost empty batch a full one may take."""
SMALL_MICROS: Final = 3_000.0
"""Estimated work of a batch that counts as almost empty."""
LEAST_SHARE: Final = 1 / 32
"""The least part of the bounds that is left: the work of a backlog has to go on, too."""
SHRINK: Final = 0.7
GROW: Final = 1.1
FORGET: Final = 0.01
"""Part by which the time of an empty batch follows longer ones, with each batch."""


@dataclass
class Pace:
    """Makes batches smaller while they take too long, and larger again while they do not."""

    share: float = 1.0
    """Part of the bounds of a shared batch to use."""
    empty: float | None = None
    """Seconds that an almost empty batch takes; None: not seen yet."""

    def ran(self, micros: float, seconds: float, *, was_full: bool) -> None:
        """A batch with so much estimated work has taken so long."""
        if micros <= SMALL_MICROS:
            if self.empty is None or seconds < self.empty:
                self.empty = seconds
            self.empty += (seconds - self.empty) * FORGET
        if self.empty is None or not was_full:
            return
        if seconds > LONGER * self.empty:
            self.share = max(LEAST_SHARE, self.share * SHRINK)
        else:
            self.share = min(1.0, self.share * GROW)
