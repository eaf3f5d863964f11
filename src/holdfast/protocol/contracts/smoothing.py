"""A load that follows what is measured slowly, so that a moment's peak moves nothing."""

from __future__ import annotations

import math

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.contracts.loads import Load

__all__ = ["Smoothed"]


class Smoothed:
    """An exponential moving average over a window: after so long, 63 % of a step is seen."""

    def __init__(self, window: int) -> None:
        """In microseconds."""
        if window <= 0:
            raise InvalidArgumentError(f"window: {window} is too short; give more")
        self.window = window
        self.load: Load | None = None
        """None until something was measured."""
        self._at = 0

    def measure(self, load: Load, now: int) -> Load:
        """What was measured since the last time; an older time counts as now."""
        if self.load is None:
            self.load = load
        else:
            weight = -math.expm1(-max(0, now - self._at) / self.window)
            self.load = self.load * (1 - weight) + load * weight
        self._at = max(self._at, now)
        return self.load
