"""Keys that a shard window still knows though a window may hold none of their rows.

Used by `window` when it is to name idle keys.
"""

from __future__ import annotations

import numpy as np

from holdfast.windows.columns import Column
from holdfast.windows.shard.emission import NOBODY

__all__ = ["Known"]


class Known:
    """The keys seen, and when the newest pane of each ended. Never changed in place."""

    __slots__ = ("ids", "seen")

    def __init__(self, ids: Column = NOBODY, seen: Column = NOBODY) -> None:
        self.ids = ids
        """Increasing."""
        self.seen = seen

    def see(self, ids: Column, end: int) -> Known:
        """With these keys seen in a pane that ended then, at or after all before."""
        union = np.union1d(self.ids, ids)
        seen = np.empty(len(union), np.int64)
        seen[np.searchsorted(union, self.ids)] = self.seen
        seen[np.searchsorted(union, ids)] = end
        return Known(union, seen)

    def since(self, time: int) -> Known:
        """Only those seen at or after a time."""
        if not len(self.seen) or int(self.seen.min()) >= time:
            return self
        kept = self.seen >= time
        return Known(self.ids[kept], self.seen[kept])

    def without(self, ids: Column) -> Column:
        """The numbers of those that are not among `ids`."""
        idle: Column = np.setdiff1d(self.ids, ids, assume_unique=True)
        return idle
