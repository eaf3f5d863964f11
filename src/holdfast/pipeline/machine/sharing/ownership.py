"""Ownership table: the replica in each seat of an operator, as one replica knows it.

A seat is the place of one replica; who takes over from it sits there too. Claims are ordered, so
that books that have seen the same claims are equal, in whatever order they came. A replica holds
its own seat as long as nobody has taken over from it: that makes it live, and else it is fenced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Claim(NamedTuple):
    """Of two claims to a seat the larger one stands. `life` grows with each start of a replica."""

    epoch: int
    replica: str
    life: int


class Book:
    """The seats of one operator."""

    def __init__(self, replicas: Iterable[str]) -> None:
        self.replicas = tuple(replicas)
        self._home = {name: seat for seat, name in enumerate(self.replicas)}
        self._claims = [Claim(0, name, 0) for name in self.replicas]
        self._live: tuple[str, ...] | None = None

    @property
    def claims(self) -> tuple[Claim, ...]:
        """By seat."""
        return tuple(self._claims)

    @property
    def live(self) -> tuple[str, ...]:
        """Those who hold their own seat."""
        if self._live is None:
            self._live = tuple(name for name in self.replicas if self.life(name) is not None)
        return self._live

    def learn(self, claims: Iterable[Claim]) -> bool:
        """Whether any of them is news and stands."""
        news = False
        for seat, claim in zip(range(len(self.replicas)), claims, strict=False):
            if claim > self._claims[seat] and claim.replica in self._home:
                self._set(seat, claim)
                news = True
        return news

    def learn_home(self, claim: Claim) -> bool:
        """A replica says this of its own seat."""
        seat = self._home[claim.replica]
        if claim <= self._claims[seat]:
            return False
        self._set(seat, claim)
        return True

    def home(self, name: str) -> Claim:
        """The claim that stands on the seat that was this replica's at first."""
        return self._claims[self._home[name]]

    def life(self, name: str) -> int | None:
        """The life in which it holds its seat; None if another does."""
        claim = self.home(name)
        return claim.life if claim.replica == name else None

    def is_live(self, name: str, life: int) -> bool:
        return self.life(name) == life

    def sitter(self, seat: int) -> str:
        """Who sits there; if he is fenced himself, who has his seat, and so on."""
        name = self._claims[seat].replica
        seen = set()
        while self.life(name) is None and name not in seen:
            seen.add(name)
            name = self.home(name).replica
        return name

    def heir(self, name: str) -> str:
        """Who answers for a replica: itself, or who took over from it."""
        return self.sitter(self._home[name])

    def take(self, name: str, life: int, seats: Iterable[int]) -> None:
        """Claim these seats in the next epoch."""
        for seat in seats:
            self._set(seat, Claim(self._claims[seat].epoch + 1, name, life))

    def _set(self, seat: int, claim: Claim) -> None:
        self._claims[seat] = claim
        self._live = None

    def seats_of(self, name: str) -> tuple[int, ...]:
        """The seats it was the last to claim."""
        return tuple(seat for seat, claim in enumerate(self._claims) if claim.replica == name)

    def seat_of(self, name: str) -> int:
        """The seat that was its own at first."""
        return self._home[name]

    def next_live(self, name: str, dead: Iterable[str] = ()) -> str | None:
        """The next live one after it, round the ring; never itself."""
        gone = {*dead, name}
        start = self._home[name] + 1
        order = (*self.replicas[start:], *self.replicas[: start - 1])
        live = (each for each in order if each not in gone and self.life(each) is not None)
        return next(live, None)
