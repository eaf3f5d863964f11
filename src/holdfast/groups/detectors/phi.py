"""Phi-accrual failure detectors (Hayashibara and others, 2004), of one peer and of a mesh."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Final

from holdfast.errors import InvalidArgumentError

# How unlikely a silence is, as the detectors count it: phi = -log10 P(the beat comes later still).
#
# Two curves over z, by how many deviations the silence exceeds the mean interval. `normal` is the
# formula of the paper, P = erfc(z / sqrt 2) / 2, to full precision however long the silence: where
# erfc is 0 in floats its asymptotic series takes over. `logistic` is the approximation of it that
# implementations in use have (Akka's); published values and customary thresholds are on its scale.
# Its tail is thinner, so that it suspects a little sooner: at phi 8 after 5.2 deviations where the
# normal distribution has 5.6. Neither is ever infinite.

SERIES_FROM: Final = 25.0
"""erfc is 0 in floats from 38 deviations on; from here on the series has 11 right digits."""


def normal(z: float) -> float:
    """phi of the normal distribution."""
    if z <= 0.0:
        return -math.log1p(-0.5 * math.erfc(-z / math.sqrt(2.0))) / math.log(10.0)
    if z < SERIES_FROM:
        return -math.log10(0.5 * math.erfc(z / math.sqrt(2.0)))
    square = z * z
    series = 1.0 - (1.0 - (3.0 - (15.0 - 105.0 / square) / square) / square) / square
    tail = math.log(z * math.sqrt(2.0 * math.pi)) - math.log(series)
    return (0.5 * square + tail) / math.log(10.0)


def logistic(z: float) -> float:
    """phi of the logistic approximation: log10(1 + exp x), without overflow."""
    x = z * (1.5976 + 0.070566 * z * z)
    return (max(x, 0.0) + math.log1p(math.exp(-abs(x)))) / math.log(10.0)


CURVES: Final[dict[str, Callable[[float], float]]] = {"logistic": logistic, "normal": normal}


@cache
def reach(curve: str, threshold: float) -> float:
    """After how many deviations phi is at the threshold, to a rounding."""
    if not 0.0 < threshold < 1e12:
        raise InvalidArgumentError(f"phi: threshold is {threshold}; give a number above 0, as 8")
    phi = CURVES[curve]
    low, high = -40.0, 1.0
    while phi(high) < threshold:
        high *= 2.0
    while low < (middle := (low + high) / 2.0) < high:
        if phi(middle) < threshold:
            low = middle
        else:
            high = middle
    return high


# The phi-accrual failure detector of one peer (Hayashibara and others, 2004).
#
# It says how unlikely the present silence is for a living peer, on a scale of its own habits: the
# mean and the deviation of the last intervals between its heartbeats. What to make of the number is
# the caller's affair; `PhiMesh` compares it with a threshold. Times are microseconds.


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


class PhiMesh:
    """Who of the peers is suspected.

    `period` is how often each beats; unless told, the least deviation is a quarter of it and a
    pause of one period is in order, so that one lost beat is no reason for suspicion. A peer's
    first beat is awaited from when it joined, `now` for those given at once. A suspicion ends with
    the next beat. A silence longer than it took to suspect counts as just that long: who was
    stopped for a minute is not given a minute the next time, and yet one whose beats have become
    slower is learnt.
    """

    def __init__(
        self,
        peers: Iterable[str],
        period: int,
        threshold: float = 8.0,
        *,
        window: int = 200,
        min_deviation: int | None = None,
        pause: int | None = None,
        curve: str = "logistic",
        now: int = 0,
    ) -> None:
        if period < 1:
            raise InvalidArgumentError(f"mesh: period is {period}; give at least 1 microsecond")
        self.period = period
        self.threshold = threshold
        self._window = window
        self._min_deviation = max(1, period // 4) if min_deviation is None else min_deviation
        self._pause = period if pause is None else pause
        self._curve = curve
        self._peers: dict[str, Phi] = {}
        self._due: dict[str, int] = {}
        self._next: int | None = None
        """What `next_check` said last: it is asked far more often than beats come."""
        for peer in peers:
            self.join(peer, now)

    @property
    def peers(self) -> Collection[str]:
        return self._peers.keys()

    def join(self, peer: str, now: int) -> None:
        """A peer is watched from now on, or anew: what was known of its habits is forgotten."""
        phi = Phi(self._window, self._min_deviation, self._pause, self.period, curve=self._curve)
        phi.start(now)
        self._peers[peer] = phi
        self._note(peer, phi)

    def leave(self, peer: str) -> None:
        self._peers.pop(peer, None)
        self._due.pop(peer, None)
        self._next = None

    def beat(self, peer: str, now: int) -> None:
        """A heartbeat; of one who is no peer, nothing."""
        phi = self._peers.get(peer)
        if phi is None:
            return
        last = phi.last
        phi.beat(now, None if last is None else self._due[peer] - last)
        self._note(peer, phi)

    def resume(self, now: int) -> None:
        """This node itself was stopped: what it did not hear meanwhile says nothing of others."""
        for peer, phi in self._peers.items():
            phi.start(now)
            self._note(peer, phi)

    def phi(self, peer: str, now: int) -> float:
        return self._peers[peer].phi(now)

    def phis(self, now: int) -> dict[str, float]:
        """For those who look on."""
        return {peer: phi.phi(now) for peer, phi in self._peers.items()}

    def suspects(self, now: int) -> set[str]:
        return {peer for peer, due in self._due.items() if now >= due}

    def next_check(self, now: int) -> int:
        """When a peer not suspected yet will be, if it stays silent; a period from now if none."""
        if self._next is None or self._next <= now:
            coming = (due for due in self._due.values() if due > now)
            self._next = min(coming, default=now + self.period)
        return self._next

    def _note(self, peer: str, phi: Phi) -> None:
        due = phi.suspect_at(self.threshold)
        assert due is not None, "a peer is started when it joins"
        self._due[peer] = due
        self._next = None
