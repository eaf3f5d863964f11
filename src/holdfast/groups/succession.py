"""Succession of a dead member: three rules, behind the same verbs.

`Bully` asks: the highest living id takes all. `Ring` counts: the next living one takes all.
`Spread` shares: each partition goes to the living one that ranks highest for it. Whoever is wrong
about the living may take over as well: the claims decide (see `ownership`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from holdfast.errors import InvalidArgumentError
from holdfast.groups.membership import Election, ElectionAck, GroupMessage


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to say, and from whom I take over now."""

    sends: tuple[tuple[str, GroupMessage], ...] = ()
    won: tuple[str, ...] = ()


class Succession(Protocol):
    """How a member finds out what to take over. `live` are the other living members."""

    def start(self, failed: str, live: Collection[str], now: int) -> Outcome:
        """A node has died, or what it owned has nobody; may be called again and again."""
        ...

    def receive(
        self, sender: str, message: Election | ElectionAck, live: Collection[str], now: int
    ) -> Outcome: ...

    def wake(self, live: Collection[str], now: int) -> Outcome: ...

    def settled(self, failed: str) -> None:
        """Somebody has taken over, or the node is alive."""
        ...

    def takes(self, partition: int, live: Collection[str]) -> bool:
        """Whether a winner takes this partition of a dead node."""
        ...

    @property
    def due(self) -> int | None: ...


def succession(name: str, me: str, ring: Sequence[str], timeout: int) -> Succession:
    """By the name it has in a configuration."""
    match name:
        case "bully":
            return Bully(me, timeout)
        case "ring":
            return Ring(me, ring)
        case "spread":
            return Spread(me)
        case _:
            raise InvalidArgumentError(f"succession {name!r}: expected bully, ring or spread")


def successor(failed: str, ring: Sequence[str], live: Collection[str]) -> str | None:
    """The next living one after a node, round the ring; never the node itself."""
    order = sorted(ring)
    place = order.index(failed)
    following = order[place + 1 :] + order[:place]
    return next((each for each in following if each in live), None)


def ranked(partition: int, nodes: Collection[str]) -> list[str]:
    """The nodes by how they rank for a partition, highest first: the same everywhere, and one more
    or less of them moves only what it has itself."""

    def weight(node: str) -> bytes:
        return blake2b(f"{partition}/{node}".encode(), digest_size=8).digest()

    return sorted(nodes, key=lambda node: (weight(node), node), reverse=True)


class Ring:
    def __init__(self, me: str, ring: Sequence[str]) -> None:
        self._me = me
        self._ring = tuple(ring)

    due: int | None = None

    def start(self, failed: str, live: Collection[str], now: int) -> Outcome:
        mine = successor(failed, self._ring, {*live, self._me}) == self._me
        return Outcome(won=(failed,)) if mine else Outcome()

    def receive(
        self, sender: str, message: Election | ElectionAck, live: Collection[str], now: int
    ) -> Outcome:
        return Outcome()

    def wake(self, live: Collection[str], now: int) -> Outcome:
        return Outcome()

    def settled(self, failed: str) -> None:
        pass

    def takes(self, partition: int, live: Collection[str]) -> bool:
        return True


class Spread:
    def __init__(self, me: str) -> None:
        self._me = me

    due: int | None = None

    def start(self, failed: str, live: Collection[str], now: int) -> Outcome:
        return Outcome(won=(failed,))

    def receive(
        self, sender: str, message: Election | ElectionAck, live: Collection[str], now: int
    ) -> Outcome:
        return Outcome()

    def wake(self, live: Collection[str], now: int) -> Outcome:
        return Outcome()

    def settled(self, failed: str) -> None:
        pass

    def takes(self, partition: int, live: Collection[str]) -> bool:
        return ranked(partition, {*live, self._me})[0] == self._me


@dataclass(slots=True)
class _Round:
    """An election that goes on: asked those above, or left to one of them."""

    until: int
    is_left: bool = False


@dataclass
class Bully:
    """One election for each dead node; `timeout`: how long those above may take to answer, and
    twice that, to announce themselves."""

    me: str
    timeout: int
    _rounds: dict[str, _Round] = field(default_factory=dict)

    @property
    def due(self) -> int | None:
        return min((each.until for each in self._rounds.values()), default=None)

    def start(self, failed: str, live: Collection[str], now: int) -> Outcome:
        if failed in self._rounds:
            return Outcome()
        above = sorted(each for each in live if each > self.me and each != failed)
        if not above:
            return Outcome(won=(failed,))
        self._rounds[failed] = _Round(now + self.timeout)
        return Outcome(tuple((each, Election(failed)) for each in above))

    def receive(
        self, sender: str, message: Election | ElectionAck, live: Collection[str], now: int
    ) -> Outcome:
        if isinstance(message, ElectionAck):
            going_on = self._rounds.get(message.failed)
            if going_on is not None and not going_on.is_left:
                self._rounds[message.failed] = _Round(now + 2 * self.timeout, is_left=True)
            return Outcome()
        mine = self.start(message.failed, live, now)
        answer = (sender, ElectionAck(message.failed))
        return Outcome((answer, *mine.sends), mine.won)

    def wake(self, live: Collection[str], now: int) -> Outcome:
        """Nobody above has answered: it is me. He who answered has died since: once more."""
        sends: list[tuple[str, GroupMessage]] = []
        won: list[str] = []
        over = sorted(failed for failed, each in self._rounds.items() if each.until <= now)
        for failed in over:
            if not self._rounds.pop(failed).is_left:
                won.append(failed)
                continue
            again = self.start(failed, live, now)
            sends += again.sends
            won += again.won
        return Outcome(tuple(sends), tuple(won))

    def settled(self, failed: str) -> None:
        self._rounds.pop(failed, None)

    def takes(self, partition: int, live: Collection[str]) -> bool:
        return True
