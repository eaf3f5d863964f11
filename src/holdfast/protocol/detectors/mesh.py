"""All peers of a group, each watched by a phi-accrual detector of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.detectors.phi import Phi

__all__ = ["PhiMesh"]


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
