"""The rule behind `hops`: fold updates that are expected to leave together.

Used by `window`. How many updates leave at once is predicted from how many left before
(digest §3.9c). Counted from where the window begins, the updates to come are divided into runs of
the expected size; those near the end of a run keep buckets of their own, and so does one on either
side of what is folded, by which a prediction that came true is recognised.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any

from holdfast.windows.approximation.prediction import Sample

__all__ = ["Hopping"]


class Hopping:
    """Knows where evictions are expected to end."""

    def __init__(self, confidence: float) -> None:
        self.confidence = confidence
        self._sizes = Sample()
        self._expected: tuple[float, float] | None = None
        """How many updates leave at once, and by how many that may differ."""

    def folds(self, size: int, newest: int) -> bool:
        """Whether the next update of a window of `size` may join the bucket of `newest` updates."""
        if self._expected is None:
            return False
        mean, spread = self._expected
        run = int(size / mean)
        # Whoever starts counting where the window begins is wrong by more with every run.
        first = ceil(run * mean) + ceil(spread * sqrt(run))
        last = ceil((run + 1) * mean) - 1 - ceil(spread * sqrt(run + 1))
        return first < size - newest and size < last

    def observe(self, count: int, before: int, after: int, size: int) -> None:
        """`count` updates have left together, which leaves `size`.

        `before` and `after`: how many updates the buckets on either side of the cut have, 1 each if
        the cut is where it should be. If one of them has several the cut should perhaps have been
        inside it: then what goes into the sample is the size that differs most from what was
        expected, or the prediction would confirm itself.
        """
        possible = [count, count - before + 1, count + after - 1]
        expected = count if self._expected is None else self._expected[0]
        worst = max(possible, key=lambda size: abs(size - expected))
        self._sizes.observe(float(worst), (size + count) // max(count, 1))
        interval = self._sizes.interval(self.confidence)
        if interval is None:
            return
        low, high = interval
        mean = (low + high) / 2
        self._expected = (mean, (high - low) / 2) if mean >= 1 else None

    def saved(self) -> Any:
        return self._sizes.saved(), self._expected

    def restore(self, saved: Any) -> None:
        sizes, self._expected = saved
        self._sizes = Sample.restored(sizes)
