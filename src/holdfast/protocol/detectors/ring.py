"""The ring: each member pings the next living one and counts it dead when it does not answer.

Far fewer messages than a mesh, n in a period for n members; for it a death is known to one member
only, who tells the others. (Digest of tuple-delivery, §2 and §3.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.errors import InvalidArgumentError

__all__ = ["RingPing", "successor"]


def successor(ring: Sequence[str], member: str, dead: Iterable[str]) -> str | None:
    """The next after `member` round the ring who is not dead; None if nobody else is left."""
    gone = set(dead)
    place = ring.index(member)
    for step in range(1, len(ring)):
        next_one = ring[(place + step) % len(ring)]
        if next_one not in gone:
            return next_one
    return None


class RingPing:
    """Watches the next living member of `ring` for `me`.

    A ping goes out every `period`. The next one is suspected when it has answered nothing for
    `timeout` since a ping that waits for its answer; from then on the one after it is watched,
    until `alive` says otherwise. Never itself: the last one left watches nobody.
    """

    def __init__(self, me: str, ring: Sequence[str], period: int, timeout: int) -> None:
        if me not in ring or len(set(ring)) < len(ring):
            raise InvalidArgumentError(
                f"ring: {me!r} in {list(ring)}; give every member once, and this one among them"
            )
        if period < 1 or timeout < 1:
            raise InvalidArgumentError(
                f"ring: period {period}, timeout {timeout}; give at least 1 microsecond each"
            )
        self.me = me
        self.ring = tuple(ring)
        self.period = period
        self.timeout = timeout
        self._dead: set[str] = set()
        self._next_ping: int | None = None
        self._unanswered_since: int | None = None

    @property
    def watched(self) -> str | None:
        """Whom it pings."""
        return successor(self.ring, self.me, self._dead)

    @property
    def dead(self) -> frozenset[str]:
        return frozenset(self._dead)

    def wake(self, now: int) -> list[str]:
        """Whom to ping now. Those found dead since the last time are in `dead`.

        Woken later than the next ping by a whole period it was stopped itself, and an answer may
        lie unread: the time-out begins anew.
        """
        if self._next_ping is not None and now > self._next_ping + self.period:
            self._watch_anew()
        since = self._unanswered_since
        watched = self.watched
        if watched is not None and since is not None and now >= since + self.timeout:
            self.down(watched)
            watched = self.watched
        if watched is None or (self._next_ping is not None and now < self._next_ping):
            return []
        self._next_ping = now + self.period
        if self._unanswered_since is None:
            self._unanswered_since = now
        return [watched]

    def pong(self, peer: str, now: int) -> None:
        """An answer. One of a member held for dead shows that it is not."""
        self.alive(peer)
        if peer == self.watched:
            self._unanswered_since = None

    def down(self, peer: str) -> None:
        """It is dead, by our own finding or by another's."""
        if peer == self.me or peer not in self.ring or peer in self._dead:
            return
        watched = self.watched
        self._dead.add(peer)
        if peer == watched:
            self._watch_anew()

    def alive(self, peer: str) -> None:
        """It lives again."""
        watched = self.watched
        self._dead.discard(peer)
        if self.watched != watched:
            self._watch_anew()

    def due(self, now: int) -> int | None:
        """When to wake it next; None when there is nobody to watch."""
        if self.watched is None:
            return None
        times = [now if self._next_ping is None else self._next_ping]
        if self._unanswered_since is not None:
            times.append(self._unanswered_since + self.timeout)
        return min(times)

    def _watch_anew(self) -> None:
        self._next_ping = None
        self._unanswered_since = None
