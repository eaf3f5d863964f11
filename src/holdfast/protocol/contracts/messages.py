"""What load managers say to each other: offers, answers, and how a task is handed over.

Any message may be lost, repeated or overtaken. Nothing in here says how loaded anybody is, what
anything costs him, or with whom else he has contracts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from holdfast.protocol.contracts.loads import Load
from holdfast.protocol.contracts.tasks import Epoch, LoanId, Task

__all__ = [
    "Alive",
    "Answer",
    "Beat",
    "Cancel",
    "Cancelled",
    "Closed",
    "Commit",
    "Freed",
    "GiveBack",
    "HandBack",
    "Hello",
    "Message",
    "Offer",
    "Ready",
    "Recall",
    "Refuse",
    "Release",
    "Renew",
    "Renewed",
    "Report",
    "Ship",
    "Shipment",
    "Taken",
    "Takeover",
    "is_sound",
]

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
