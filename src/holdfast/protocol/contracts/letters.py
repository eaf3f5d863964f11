"""Messages as they are sent: numbered, by a life of the sender, with what it has heard last.

Numbers of letters to a partner rise, and each says which life of its receiver it has heard. So one
that was recorded and is sent again is taken for what it is, in the same life or in a later one: it
is no sign of life and changes nothing. One that was overtaken by later ones, and binds, counts when
it comes, once; it is no sign of life. Letters that bind form a chain of their own, which both sides
keep: each names the one before it, so one that is missing is missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from holdfast.protocol.contracts.messages import Alive, Beat, Hello, Message

__all__ = ["LOOSE", "NONE", "Bound", "Letter", "Mark", "Post"]

Mark = tuple[int, int]
"""The life of a participant, and a number that begins with 1 in each of its lives."""
NONE: Final[Mark] = (0, 0)
LOOSE: Final = (Alive, Beat, Hello)
"""Said again and again; the last counts."""
OVERTAKEN: Final = 256
"""Letters after one that has not come, until it is taken for old."""
MOST_KEPT: Final = 1 << 16
"""Places of a partner's chain that are remembered; those before are taken."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The place of a message in the chain of its sender to one partner."""

    mark: Mark = NONE
    """NONE: it does not bind."""
    before: Mark = NONE


@dataclass(frozen=True, slots=True)
class Letter:
    mark: Mark
    """Of this sending: a message that is said again has another."""
    heard: Mark
    """Of the letter of the receiver that was heard last: this one answers that."""
    bound: Bound
    message: Message


class Post:
    """Letters to one partner and from it, in one life of mine."""

    def __init__(self, life: int, last: Mark = NONE) -> None:
        """`last`: of what bound me before this life."""
        self._life = life
        self._number = 0
        self._bounds = 0
        self._last = last
        self._heard = NONE
        self._missing: set[int] = set()
        """Numbers of the present life of the partner that later ones have overtaken."""
        self._kept: dict[Mark, bytes] = {}
        """Digests of what was heard that binds, in the present life of the partner."""
        self._forgotten = NONE
        """The last place that is taken and not remembered."""

    def bind(self, message: Message) -> Bound:
        """The place of something new that is said to the partner."""
        if isinstance(message, LOOSE):
            return Bound()
        self._bounds += 1
        bound = Bound((self._life, self._bounds), self._last)
        self._last = bound.mark
        return bound

    def write(self, message: Message, bound: Bound) -> Letter:
        self._number += 1
        return Letter((self._life, self._number), self._heard, bound, message)

    def is_new(self, letter: Letter) -> bool:
        """Whether it was never heard in this life of mine. Of what only counts if it is the last,
        one that was overtaken is old."""
        life, number = letter.mark
        last, highest = self._heard
        if letter.mark <= self._heard:
            is_missing = life == last and number in self._missing
            self._missing.discard(number)
            return is_missing and not isinstance(letter.message, LOOSE)
        first = number - OVERTAKEN
        if life == last:
            self._missing = {each for each in self._missing if each >= first}
            first = max(first, highest + 1)
        else:
            self._missing = set()
        self._missing.update(range(max(first, 1), number))
        self._heard = letter.mark
        return True

    def is_last(self, letter: Letter) -> bool:
        """Whether nothing later was heard before it."""
        return letter.mark == self._heard

    def is_fresh(self, letter: Letter) -> bool:
        """Whether it was written after its sender had heard of this life of mine."""
        return letter.heard[0] == self._life

    def is_in_place(self, letter: Letter) -> bool:
        """Whether it can be kept and shown: what binds has a place in the chain, and no other
        letter has that."""
        mark, message = letter.bound.mark, letter.message
        if isinstance(message, LOOSE):
            return mark == NONE
        if mark in self._kept:
            return self._kept[mark] == _digest(message)
        return mark > self._forgotten

    def is_to_keep(self, letter: Letter) -> bool:
        """Whether it binds its sender, for the first time."""
        mark = letter.bound.mark
        if mark == NONE or mark in self._kept:
            return False
        if len(self._kept) >= MOST_KEPT:
            first = next(iter(self._kept))
            del self._kept[first]
            self._forgotten = max(self._forgotten, first)
        self._kept[mark] = _digest(letter.message)
        return True


def _digest(message: Message) -> bytes:
    return blake2b(repr(message).encode(), digest_size=16).digest()
