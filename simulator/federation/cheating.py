"""Participants that cheat: their load managers are real, and what they say is changed on its way.

A cheat may sign whatever it likes. Nothing of it is judged; those who deal with it are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from holdfast.federation.machine.costs import Load
from holdfast.federation.machine.messages import (
    Alive,
    Beat,
    Cancel,
    Closed,
    Commit,
    GiveBack,
    HandBack,
    Message,
    Offer,
    Ready,
    Refuse,
    Renew,
    Renewed,
    Ship,
    Taken,
)

Tamper = Callable[[Message, Random], Message | None]
"""None: nothing is said."""
FOREVER: Final = 10**15
HUGE: Final = 1e308
LARGEST: Final = (1 << 64) - 1
"""That a letter can carry."""


def pays_nothing(message: Message, random: Random) -> Message | None:
    """The buyer ends every loan, and some that go on, as if nothing had been served."""
    match message:
        case Cancel(loan):
            return Cancel(loan, 0, 0)
        case Closed(loan):
            return Closed(loan, 0, 0)
        case Beat(receipts) if receipts and random.random() < 0.01:
            return Cancel(random.choice(receipts)[0], 0, 0)
    return message


def gives_no_receipts(message: Message, random: Random) -> Message | None:
    return Beat() if isinstance(message, Beat) else message


def never_hears(message: Message, random: Random) -> Message | None:
    """The buyer hands over, and is not heard of again."""
    return message if isinstance(message, Offer | Ship | Commit) else None


def renews_for_nothing(message: Message, random: Random) -> Message | None:
    return replace(message, units=message.units / 100) if isinstance(message, Renew) else message


def hoards(message: Message, random: Random) -> Message | None:
    """The buyer has places kept for ever, and sends nothing."""
    if isinstance(message, Offer):
        return replace(message, hold=FOREVER)
    return None if isinstance(message, Ship) else message


def claims_more(message: Message, random: Random) -> Message | None:
    """The seller counts what it has served a hundred times."""
    match message:
        case Alive(reports):
            return Alive(tuple(replace(each, served=100 * each.served) for each in reports))
        case HandBack():
            return replace(message, periods=message.periods + 5, served=100 * message.served)
    return message


def refuses_later(message: Message, random: Random) -> Message | None:
    return Refuse(message.loan) if isinstance(message, Ready) else message


def is_never_ready(message: Message, random: Random) -> Message | None:
    return None if isinstance(message, Ready) else message


def gives_back_at_once(message: Message, random: Random) -> Message | None:
    return GiveBack(message.loan) if isinstance(message, Taken) else message


def says_any_number(message: Message, random: Random) -> Message | None:
    """Either side names loads, amounts and times that cannot be calculated with."""
    if random.random() < 0.9:
        return message
    match message:
        case Alive(reports):
            return Alive(tuple(replace(each, load=Load(HUGE, HUGE)) for each in reports))
        case Beat(receipts):
            return Beat(tuple((loan, LARGEST) for loan, _ in receipts))
        case Offer(tasks=tasks):
            return replace(message, tasks=tuple(replace(each, load=Load(HUGE)) for each in tasks))
        case Renew() | Renewed():
            return replace(message, units=1.5 * HUGE)
        case HandBack():
            return replace(message, bucket=LARGEST)
    return message


CHEATS: Final[Mapping[str, Tamper]] = {
    each.__name__: each
    for each in (
        pays_nothing,
        gives_no_receipts,
        never_hears,
        renews_for_nothing,
        hoards,
        claims_more,
        refuses_later,
        is_never_ready,
        gives_back_at_once,
    )
}
"""Those that are drawn."""
KINDS: Final[Mapping[str, Tamper]] = {**CHEATS, says_any_number.__name__: says_any_number}
"""Those that there are: seeds of before keep their meaning."""

SILENT: Final = frozenset({gives_no_receipts.__name__, never_hears.__name__})
"""Those who acknowledge nothing: they gain a period; others what they have not yet acknowledged."""


def tamper(kind: str, message: Message, random: Random) -> Message | None:
    return KINDS[kind](message, random)
