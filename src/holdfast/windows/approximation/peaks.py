"""The rule behind `block_maxima`: fold what will hardly ever be the greatest.

Used by `window`. The greatest of each block of updates goes into a sample of 30, to which a
generalised extreme value distribution is fitted (digest §3.9b). What lies below its range is
folded. What lies above is not, though the founding document has it so: it may become the answer.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from reprlib import repr as shorten
from typing import Any, Final

from holdfast.errors import InvalidValueError
from holdfast.windows.approximation.buckets import Bucket
from holdfast.windows.approximation.extremes import fit_gev

__all__ = ["Peaks"]

BLOCKS: Final = 30
"""How many blocks make a sample; nothing is folded before there are so many."""


class Peaks:
    """Knows the range in which the greatest update of a block is to be expected."""

    def __init__(self, peak: Callable[[Any], Any], block: int, confidence: float) -> None:
        self.peak = peak
        self.block = block
        self.confidence = confidence
        self.range: tuple[float, float] | None = None
        """Where the answers to come are expected; None while that cannot be told."""
        self._maxima: deque[float] = deque(maxlen=BLOCKS)
        self._count = 0
        self._greatest = 0.0

    def value(self, bucket: Bucket) -> float:
        """The number that is compared."""
        peak = self.peak(bucket[1])
        try:
            return float(peak)
        except OverflowError:
            return math.inf if peak > 0 else -math.inf
        except (TypeError, ValueError):
            raise InvalidValueError(
                f"block_maxima: {shorten(peak)} is no number; map the updates to numbers, or give "
                "a function that reads one from a state: block_maxima(..., of=...)"
            ) from None

    def folds(self, value: float, answer: Bucket, newest: int) -> bool:
        """Whether an update of this value, which finds the window with this answer, may join the
        bucket of `newest` updates.

        No bucket holds more than a block: else it might outlast what the window should hold while
        values fall.
        """
        if self.range is None or newest >= self.block:
            return False
        return value < self.range[0] and value <= self.value(answer)

    def observe(self, value: float) -> None:
        """Take the value of an update into the present block."""
        if not self._count or value > self._greatest:
            self._greatest = value
        self._count += 1
        if self._count < self.block:
            return
        self._maxima.append(self._greatest)
        self._count = 0
        if len(self._maxima) == BLOCKS:
            fitted = fit_gev(self._maxima)
            self.range = None if fitted is None else fitted.bounds(self.confidence)

    def saved(self) -> Any:
        return self.range, tuple(self._maxima), self._count, self._greatest

    def restore(self, saved: Any) -> None:
        self.range, maxima, self._count, self._greatest = saved
        self._maxima = deque(maxima, BLOCKS)
