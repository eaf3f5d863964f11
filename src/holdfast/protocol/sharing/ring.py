"""Who is down, as one of a ring sees it: each pings the next live one.

It is suspected when its silence is unlikely (phi) and several pings went unanswered: who was
stopped himself has sent none, and suspects nobody when he wakes up. With nobody else alive nobody
is pinged, least of all oneself.
"""

from __future__ import annotations

from holdfast.protocol.detectors import Phi
from holdfast.protocol.sharing.books import Book
from holdfast.protocol.sharing.rules import Rules

__all__ = ["Ring"]

LONGEST = 10
"""A pause of more periods than that says nothing of how regular it is."""


class Ring:
    def __init__(self, me: str, book: Book, rules: Rules) -> None:
        self.me = me
        self.suspects: set[str] = set()
        """Those nobody has taken over from yet."""
        self._book = book
        self._rules = rules
        self._target: str | None = None
        self._phi = self._detector(0)
        self._unanswered = 0

    def beat(self, now: int) -> str | None:
        """A period has passed: whom to ping now."""
        self.settle()
        target = self._book.next_live(self.me, self.suspects)
        if target == self._target and target is not None:
            self._unanswered += 1
            if (
                self._unanswered > self._rules.missed
                and self._phi.phi(now) >= self._rules.threshold
            ):
                self.suspects.add(target)
                target = self._book.next_live(self.me, self.suspects)
        if target != self._target:
            self._target = target
            self._unanswered = 0
            self._phi = self._detector(now)
        return target

    def heard(self, name: str, now: int) -> None:
        """It lives."""
        self.suspects.discard(name)
        if name == self._target:
            self._unanswered = 0
            self._phi.beat(now, LONGEST * self._rules.period)

    def settle(self) -> None:
        """Forget those who have been taken over from."""
        self.suspects = {name for name in self.suspects if self._book.life(name) is not None}

    def taker(self, failed: str) -> str | None:
        """Who is to take over from it."""
        return self._book.next_live(failed, self.suspects)

    def _detector(self, now: int) -> Phi:
        period = self._rules.period
        phi = Phi(min_deviation=max(1, period // 2), pause=period, first_estimate=period)
        phi.start(now)
        return phi
