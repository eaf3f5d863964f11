"""A participant of a federation on the page: its contracts, what is moved by them, who owes whom.

Read from the files that `holdfast participant` writes beside its journal, so only on its own host:
what it agreed with one partner is nobody else's business.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from holdfast.config.durations import Span
from holdfast.console.panels import Cell, Look, Mark, Moment, Panel, Table
from holdfast.federation.machine import Entry, Ledger, LoanId
from holdfast.federation.process.records import (
    LEDGER,
    STANDING,
    Move,
    Standing,
    read_ledger,
    read_standing,
)
from holdfast.federation.process.settings import Participant

STALE: Final = 5.0
"""Seconds; it is written every second."""
MOST_MOVES: Final = 100
STATES: Final[dict[str, tuple[str, Look]]] = {
    "shipping": ("about to move", "correcting"),
    "handed": ("handed over", "correcting"),
    "out": ("moved", "stable"),
    "fencing": ("coming home", "tentative"),
    "preparing": ("about to move", "correcting"),
    "mine": ("moved", "stable"),
    "back": ("given back", "correcting"),
    "overruled": ("overruled", "gone"),
}
"""What the page calls the states of the books."""


def participant_panels(files: Sequence[Path]) -> list[Panel]:
    """One for each; raises if a file is none of a participant."""
    return [_panel(Participant.read(file)) for file in files]


def _panel(participant: Participant, clock: Callable[[], float] = time.time) -> Panel:
    folder = participant.path(participant.folder)

    def ask() -> list[Table]:
        standing = read_standing(folder / STANDING)
        return contract_tables(participant, standing, read_ledger(folder / LEDGER), clock())

    name = participant.name
    return Panel(f"contracts-{name}", f"Contracts of {name}", ask)


def contract_tables(
    participant: Participant, standing: Standing, ledger: Ledger, now: float
) -> list[Table]:
    return [
        _contracts(participant, standing, ledger),
        _moves(standing, ledger),
        _balances(participant, standing, ledger, now),
    ]


def _contracts(participant: Participant, standing: Standing, ledger: Ledger) -> Table:
    rows: list[list[Cell]] = []
    for contract in participant.contracts():
        between = (contract.buyer, contract.seller)
        used = sum(
            each.units for each in standing.moves if (each.loan.lender, each.seller) == between
        )
        paid = sum(each.amount for each in ledger if (each.buyer, each.seller) == between)
        price = (
            f"{contract.low:g}" if contract.is_fixed else f"{contract.low:g} to {contract.high:g}"
        )
        lasts = "for ever" if contract.duration is None else str(Span(contract.duration))
        rows.append([*between, price, lasts, round(used, 4), round(paid, 4)])
    columns = ("From", "To", "Price of a unit", "Lasts", "Units moved now", "Paid so far")
    return Table(columns, rows, title="Contracts")


def _moves(standing: Standing, ledger: Ledger) -> Table:
    """Those that go on, then those that are over, newest offers first."""
    entries: dict[LoanId, list[Entry]] = defaultdict(list)
    for entry in ledger:
        entries[entry.loan].append(entry)
    current = {each.loan for each in standing.moves}
    over = sorted(entries.keys() - current, key=lambda loan: -loan.number)
    rows = [_current_move(each, entries[each.loan]) for each in standing.moves]
    rows += [_past_move(loan, entries[loan]) for loan in over[:MOST_MOVES]]
    columns = ("Task", "From", "To", "State", "Since", "Periods", "Paid")
    return Table(columns, rows, "" if rows else "nothing is moved just now", "Moves")


def _current_move(move: Move, entries: Sequence[Entry]) -> list[Cell]:
    word, look = STATES.get(move.state, (move.state, "silent"))
    since = Moment(move.since / 1000) if move.since else None
    paid = round(sum(each.amount for each in entries), 4)
    loan = move.loan
    return [loan.task, loan.lender, move.seller, Mark(word, look), since, move.periods, paid]


def _past_move(loan: LoanId, entries: Sequence[Entry]) -> list[Cell]:
    paid = round(sum(each.amount for each in entries), 4)
    seller = entries[0].seller
    return [loan.task, loan.lender, seller, Mark("over", "silent"), None, len(entries), paid]


def _balances(participant: Participant, standing: Standing, ledger: Ledger, now: float) -> Table:
    rows: list[list[Cell]] = []
    for partner in sorted({*participant.partners, *ledger.partners}):
        entries = ledger.with_partner(partner)
        paid = sum(each.amount for each in entries if each.buyer == ledger.me)
        received = sum(each.amount for each in entries if each.seller == ledger.me)
        is_silent = partner in standing.silent
        answers = Mark("no answer", "gone") if is_silent else Mark("answers", "stable")
        rows.append(
            [partner, answers, *(round(each, 4) for each in (paid, received, received - paid))]
        )
    note = f"{standing.cpu:.0%} of the cpu in use, {participant.capacity:.0%} wanted at most"
    age = now - standing.at / 1e6
    if age > STALE:
        note = (
            f"{participant.name} has said nothing for {age:.0f} s; "
            "see whether `holdfast participant` runs"
        )
    return Table(("Partner", "State", "Paid", "Received", "Balance"), rows, note, "Balances")
