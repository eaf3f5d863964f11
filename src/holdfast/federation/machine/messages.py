"""Messages between load managers, numbered as letters, and the tasks they are about.

Numbers of letters to a partner rise, and each says which life of its receiver it has heard. So one
that was recorded and is sent again is taken for what it is, in the same life or in a later one: it
is no sign of life and changes nothing. One that was overtaken by later ones, and binds, counts when
it comes, once; it is no sign of life. Letters that bind form a chain of their own, which both sides
keep: each names the one before it, so one that is missing is missed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Final, NamedTuple

from holdfast.errors import InvalidArgumentError
from holdfast.federation.machine.costs import Load

Epoch = tuple[int, ...]
"""Who runs a task last has the highest epoch, by the order of tuples.

Whoever has a task numbers its turns: 1, 2, 3 ... Whoever lends it with epoch (3,) runs it itself
again as (4,) or more; who has it as (3,) lends it on as (3, 1). So everybody can overrule those to
whom it has lent, and nobody those from whom it has borrowed.
"""


@dataclass(frozen=True, slots=True)
class Task:
    """One that a partner can be told of. Its load is what its present host has measured."""

    id: str
    load: Load
    kind: str = "stage"
    stage: str = ""
    """What it is one of the replicas of; they are kept at different participants."""

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidArgumentError("task: one has no name; give it one")


class LoanId(NamedTuple):
    """A task that `lender` hands over in its offer of this number; 0: its own, never lent."""

    lender: str
    number: int
    task: str


# What load managers say to each other: offers, answers, and how a task is handed over.
#
# Any message may be lost, repeated or overtaken. Nothing in here says how loaded anybody is, what
# anything costs him, or with whom else he has contracts.

MOST_LOAD: Final = 1e6
"""Shares of a participant that one task may be said to take."""
MOST_AMOUNT: Final = 1e15
"""Of money and of units."""
MOST_NUMBER: Final = 1 << 60
"""Microseconds, buckets and numbers: sums of some of them still fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Buyer: take these tasks, or some, at this price. Binding; so is the answer, for `hold` µs."""

    number: int
    price: float
    tasks: tuple[Task, ...]
    hold: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Seller: I take these at this price. None of them: no. A higher price: only at that.

    `apart`: these I cannot take at any price, for I have another replica of their stage.
    """

    number: int
    price: float
    tasks: tuple[str, ...]
    apart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Release:
    """Buyer: you need not keep a place for what I offered."""

    number: int


@dataclass(frozen=True, slots=True)
class Freed:
    """Seller: I do not."""

    number: int


@dataclass(frozen=True, slots=True)
class Shipment:
    task: str
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Ship:
    """Buyer: these of an offer are yours at this price; prepare to run them."""

    number: int
    price: float
    shipments: tuple[Shipment, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """Seller: I have its state and follow; say from which bucket on it is mine."""

    loan: LoanId


@dataclass(frozen=True, slots=True)
class Refuse:
    """Seller: I cannot; my promise is over, or it does not start here."""

    loan: LoanId


@dataclass(frozen=True, slots=True)
class Commit:
    """Buyer: from this bucket on it is yours; I have run all before, and run none after. I pay
    price · units for each duration."""

    loan: LoanId
    bucket: int
    price: float
    units: float
    duration: int | None


@dataclass(frozen=True, slots=True)
class Taken:
    """Seller: it runs here."""

    loan: LoanId


@dataclass(frozen=True, slots=True)
class Renew:
    """Buyer: keep it for another period, for which I pay so many units."""

    loan: LoanId
    period: int
    units: float


@dataclass(frozen=True, slots=True)
class Renewed:
    """Seller: so be it."""

    loan: LoanId
    period: int
    units: float


@dataclass(frozen=True, slots=True)
class Recall:
    """Buyer: I want it back."""

    loan: LoanId


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Seller: prepare to run it yourself again."""

    loan: LoanId


@dataclass(frozen=True, slots=True)
class Takeover:
    """Buyer: I am ready; say from which bucket on."""

    loan: LoanId


@dataclass(frozen=True, slots=True)
class HandBack:
    """Seller: from this bucket on it is yours; so many periods were agreed, and so many
    microseconds I have served."""

    loan: LoanId
    bucket: int
    periods: int
    served: int


@dataclass(frozen=True, slots=True)
class Closed:
    """Buyer: it runs here again, and so much I pay."""

    loan: LoanId
    periods: int
    served: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Buyer: you do not run it any more, and so much I pay. Never less than was receipted."""

    loan: LoanId
    periods: int
    served: int


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Seller: I do not, and so much I am owed: this amount."""

    loan: LoanId
    periods: int
    served: int
    amount: float


@dataclass(frozen=True, slots=True)
class Beat:
    """Buyer: are you there? Of each loan, so many microseconds you have served: a receipt."""

    receipts: tuple[tuple[LoanId, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A loan as its seller has it: what it takes, whether it runs, and microseconds served."""

    loan: LoanId
    load: Load
    runs: bool
    served: int


@dataclass(frozen=True, slots=True)
class Alive:
    """Seller: I am, and have these tasks of yours."""

    reports: tuple[Report, ...] = ()


@dataclass(frozen=True, slots=True)
class Hello:
    """Both: I have begun a new life and take nothing that was written to an earlier one; say it
    again."""


Message = (
    Offer
    | Answer
    | Release
    | Freed
    | Ship
    | Ready
    | Refuse
    | Commit
    | Taken
    | Renew
    | Renewed
    | Recall
    | GiveBack
    | Takeover
    | HandBack
    | Closed
    | Cancel
    | Cancelled
    | Beat
    | Alive
    | Hello
)


def is_sound(said: Message) -> bool:
    """Plausibility of all numbers of a message: what is calculated with them stays finite and can
    be written down."""
    return _is_sound(said)


def _is_sound(value: object) -> bool:
    match value:
        case int():
            return abs(value) <= MOST_NUMBER
        case float():
            return abs(value) <= MOST_AMOUNT  # False of NaN.
        case str() | None:
            return True
        case tuple():
            return all(map(_is_sound, value))
        case Load():
            return max(value.cpu, value.bandwidth) <= MOST_LOAD
        case _:
            return all(_is_sound(getattr(value, each.name)) for each in fields(value))  # type: ignore[arg-type]


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
