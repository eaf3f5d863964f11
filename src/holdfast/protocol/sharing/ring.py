"""Who is down, as one of a ring sees it: each pings the next live one.

Pings without an answer are counted, not time: who was stopped himself suspects nobody when he
wakes up. With nobody else alive nobody is pinged, least of all oneself.
"""

from __future__ import annotations

from holdfast.protocol.sharing.books import Book

__all__ = ["Ring"]


class Ring:
    def __init__(self, me: str, book: Book, missed: int) -> None:
        self.me = me
        self.suspects: set[str] = set()
        """Those nobody has taken over from yet."""
        self._book = book
        self._missed = missed
        self._target: str | None = None
        self._unanswered = 0

    def beat(self) -> str | None:
        """A period has passed: whom to ping now."""
        self.settle()
        target = self._book.next_live(self.me, self.suspects)
        if target == self._target and target is not None:
            self._unanswered += 1
            if self._unanswered > self._missed:
                self.suspects.add(target)
                target = self._book.next_live(self.me, self.suspects)
        if target != self._target:
            self._target = target
            self._unanswered = 0
        return target

    def heard(self, name: str) -> None:
        """It lives."""
        self.suspects.discard(name)
        if name == self._target:
            self._unanswered = 0

    def settle(self) -> None:
        """Forget those who have been taken over from."""
        self.suspects = {name for name in self.suspects if self._book.life(name) is not None}

    def taker(self, failed: str) -> str | None:
        """Who is to take over from it."""
        return self._book.next_live(failed, self.suspects)
