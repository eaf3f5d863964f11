"""The phi-accrual failure detector of one peer (Hayashibara and others, 2004).

It says how unlikely the present silence is for a living peer, on a scale of its own habits: the
mean and the deviation of the last intervals between its heartbeats. What to make of the number is
the caller's affair; `PhiMesh` compares it with a threshold. Times are microseconds.
"""

from __future__ import annotations

import math
from collections import deque

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.detectors.curves import CURVES, reach

__all__ = ["Phi"]


class Phi:
    """Watches one peer.

    `window`: so many intervals are remembered. `min_deviation`: the deviation is taken to be at
    least this, so that a very regular peer is not suspected for a small delay. `pause`: a silence
    longer by this than the mean is in order. `first_estimate`: the interval to expect before there
    are any, with a quarter of it as deviation; it counts as two intervals and leaves the window
    first. `curve`: see `curves`.
    """

    def __init__(
        self,
        window: int = 200,
        min_deviation: int = 100_000,
        pause: int = 0,
        first_estimate: int = 1_000_000,
        *,
        curve: str = "logistic",
    ) -> None:
        if window < 2:
            raise InvalidArgumentError(f"phi: window is {window}; give at least 2 intervals")
        if min_deviation < 1 or first_estimate < 1 or pause < 0:
            raise InvalidArgumentError(
                f"phi: min_deviation {min_deviation}, first_estimate {first_estimate}, pause "
                f"{pause}; give at least 1, 1 and 0 microseconds"
            )
        if curve not in CURVES:
            raise InvalidArgumentError(f"phi: curve is {curve!r}; give one of {', '.join(CURVES)}")
        self.min_deviation = min_deviation
        self.pause = pause
        self.curve = curve
        self._window = window
        self._intervals: deque[int] = deque()
        # Sums of ints are exact, so they do not drift as intervals come and go.
        self._sum = 0
        self._squares = 0
        self._last: int | None = None
        self._has_beaten = False
        spread = first_estimate // 4
        self._remember(first_estimate - spread)
        self._remember(first_estimate + spread)

    @property
    def last(self) -> int | None:
        """When its silence began."""
        return self._last

    @property
    def samples(self) -> int:
        return len(self._intervals)

    @property
    def mean(self) -> float:
        return self._sum / len(self._intervals)

    @property
    def deviation(self) -> float:
        n = len(self._intervals)
        return max(
            math.sqrt(n * self._squares - self._sum * self._sum) / n, float(self.min_deviation)
        )

    def start(self, now: int) -> None:
        """From now on it is expected to beat: one that never does is suspected too."""
        self._last = now
        self._has_beaten = False

    def beat(self, now: int, longest: int | None = None) -> None:
        """A heartbeat has come. Its interval counts as no more than `longest`."""
        if self._last is not None and self._has_beaten:
            interval = max(0, now - self._last)
            self._remember(interval if longest is None else min(interval, longest))
        self._last = now if self._last is None else max(now, self._last)
        self._has_beaten = True

    def phi(self, now: int) -> float:
        """0 before it was started or heard."""
        if self._last is None:
            return 0.0
        silence = now - self._last
        return CURVES[self.curve]((silence - self.pause - self.mean) / self.deviation)

    def suspect_at(self, threshold: float) -> int | None:
        """The first microsecond at which phi is at the threshold, if no beat comes before; None
        before it was started or heard."""
        if self._last is None:
            return None
        silence = self.mean + self.pause + reach(self.curve, threshold) * self.deviation
        at = max(self._last, self._last + math.ceil(silence))
        while at > self._last and self.phi(at - 1) >= threshold:
            at -= 1
        while self.phi(at) < threshold:
            at += 1
        return at

    def _remember(self, interval: int) -> None:
        if len(self._intervals) == self._window:
            oldest = self._intervals.popleft()
            self._sum -= oldest
            self._squares -= oldest * oldest
        self._intervals.append(interval)
        self._sum += interval
        self._squares += interval * interval
