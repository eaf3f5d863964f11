"""An approximate window while its store is away: coarser, in memory, and back when the store is.

Used by `window`. The window in the store stays as it is, with what was saved with it, so that a
crash during the outage resumes it from there. The buckets in its place are made of what is held
here of its upper levels (thesis 5.1, 5.3.4: trade granularity for traffic).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from holdfast.errors import StoreUnavailableError
from holdfast.windows.amta import Amta
from holdfast.windows.approximation.buckets import Bucket
from holdfast.windows.approximation.coarsening import find_coarse, rewrite
from holdfast.windows.approximation.methods import FEWEST_LEAVES
from holdfast.windows.pairs import DurablePairs

__all__ = ["Outage"]

LONGEST_PAUSE: Final = 1023
"""Operations between two attempts to reach the store, at most."""


@dataclass
class Outage:
    """The window in the store that is away, and what stands in for it."""

    stored: Amta[Any, Bucket, Any]
    local: Amta[Any, Bucket, Any]
    """Its buckets at the beginning of the outage."""
    limit: int
    """How many buckets there is room for in memory."""
    pairs: DurablePairs[Bucket]
    pause: int = 1
    """Operations until the next attempt to reach the store."""
    patience: int = 1

    @classmethod
    def begin(cls, stored: Amta[Any, Bucket, Any], companion: Any) -> Outage | None:
        """Freeze a window in a store; None if it is in none, or too little of it is held here."""
        pairs = stored.pairs
        if not isinstance(pairs, DurablePairs):
            return None
        states = find_coarse(stored, pairs.local)
        if states is None:
            return None
        # Whatever is still written of the old window goes with what belongs to it.
        pairs.accompany(lambda: companion)
        local: Amta[Any, Bucket, Any] = Amta(stored.monoid)
        rewrite(local, states)
        return cls(stored, local, max(FEWEST_LEAVES, pairs.capacity), pairs)

    def is_due(self) -> bool:
        """Whether to try the store now; asked once for each operation."""
        self.pause -= 1
        return self.pause <= 0

    def reach(self) -> None:
        """Raise StoreUnavailableError unless the store is back."""
        self.pairs.reach()

    def end(self, local: Amta[Any, Bucket, Any]) -> bool:
        """Put these buckets in place of those in the store. False: it is still away."""
        try:
            self.reach()
            rewrite(self.stored, local.leaves())
        except StoreUnavailableError:
            self.patience = min(2 * self.patience + 1, LONGEST_PAUSE)
            self.pause = self.patience
            return False
        return True
