"""Messages of replicas that share the work of an operator.

Any message may be lost, repeated or overtaken. What concerns tuples travels in packets, which say
in which life the sender holds its seat and for which life of the receiver they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.pipeline.machine.sharing.ownership import Claim
from holdfast.pipeline.machine.sharing.plan import TupleId

__all__ = [
    "Announce",
    "Announced",
    "Confirm",
    "Deliver",
    "Item",
    "Join",
    "Message",
    "Missing",
    "Packet",
    "Ping",
    "Pong",
    "Purge",
    "Purged",
    "Record",
    "Recorded",
    "Request",
    "Send",
    "Snapshot",
    "TakeOver",
    "View",
    "Word",
]


@dataclass(frozen=True, slots=True)
class Deliver:
    """A tuple for the operator below. `origin` keeps it, and is to be told how far it is."""

    id: TupleId
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Record:
    """To colleagues: I have these tuples in hand."""

    ids: tuple[TupleId, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Their answer."""

    ids: tuple[TupleId, ...]


@dataclass(frozen=True, slots=True)
class Purge:
    """To colleagues: these tuples are done."""

    ids: tuple[TupleId, ...]


@dataclass(frozen=True, slots=True)
class Purged:
    """Their answer."""

    ids: tuple[TupleId, ...]


@dataclass(frozen=True, slots=True)
class Confirm:
    """To who keeps these tuples: all my colleagues know of them (0), the operators below me have
    them safe as well (1 and more); from `Rules.hops` on they may be dropped. -1: there was no room,
    try again soon."""

    level: int
    ids: tuple[TupleId, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """To all replicas above: the one who had these tuples in hand is gone; who keeps them?"""

    ids: tuple[TupleId, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """Not I, and nothing that they could come of is in hand here."""

    ids: tuple[TupleId, ...]


Item = Deliver | Record | Recorded | Purge | Purged | Confirm | Request | Missing


@dataclass(frozen=True, slots=True)
class Packet:
    """`claim`: the sender's, to its own seat. `to`: the receiver's life. `number`: of the sender's
    packets to it. `marks`: up to which tuple of a source all that the sender's operator makes of
    them is known to the receiver's."""

    claim: Claim
    to: int
    number: int
    items: tuple[Item, ...]
    marks: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """What the sender knows of the seats of an operator. Also the answer to one who is fenced, or
    who speaks to a former life."""

    operator: str
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Ping:
    """To the next colleague round the ring."""

    number: int
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Pong:
    number: int
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class TakeOver:
    """To the next live colleague after a dead one: take its seats, and those of who died after it
    had taken them."""

    failed: str
    life: int
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Announce:
    """I have claimed seats."""

    number: int
    view: View


@dataclass(frozen=True, slots=True)
class Announced:
    number: int


@dataclass(frozen=True, slots=True)
class Join:
    """To colleagues: I am back in this life; tell me what you know, and go on telling me."""

    life: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The answer: books, marks and records. Pending ones are with the life that has them."""

    life: int
    views: tuple[View, ...]
    marks: tuple[tuple[str, int], ...]
    pending: tuple[tuple[TupleId, str, int], ...]
    purged: tuple[TupleId, ...]


Word = View | Ping | Pong | TakeOver | Announce | Announced | Join | Snapshot
"""What is said of who is there, and who sits where."""

Message = Packet | Word


@dataclass(frozen=True, slots=True)
class Send:
    """A command: carry this message to that replica, source or sink."""

    to: str
    message: Message
