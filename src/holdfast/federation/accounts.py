"""The ledger of a participant as a file, and the report whether that of a partner says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table

from holdfast.errors import InvalidArgumentError
from holdfast.parties.whole_files import write_whole
from holdfast.protocol.contracts import Account, Dispute, Entry, Ledger, LoanId, reconcile

__all__ = ["LEDGER", "compare", "read_ledger", "show_ledger", "write_ledger"]

LEDGER: Final = "ledger.json"
"""In the folder of a participant."""


class _Pages(msgspec.Struct, forbid_unknown_fields=True):
    participant: str
    entries: list[Entry]
    settled: list[tuple[LoanId, Account]] = []
    disputes: list[Dispute] = []


def write_ledger(path: Path, ledger: Ledger, partner: str | None = None) -> None:
    """All of it; or for a partner what is between the two, for the rest is not its business."""
    entries = list(ledger if partner is None else ledger.with_partner(partner))
    loans = {each.loan for each in entries}
    pages = _Pages(
        ledger.me,
        entries,
        [each for each in ledger.settled.items() if partner is None or each[0] in loans],
        [each for each in ledger.disputes.values() if partner in (None, each.partner)],
    )
    write_whole(path, msgspec.json.encode(pages) + b"\n")


def read_ledger(path: Path) -> Ledger:
    try:
        pages = msgspec.json.decode(path.read_bytes(), type=_Pages)
    except OSError as error:
        raise InvalidArgumentError(
            f"{path}: {error.strerror}; it is there when `holdfast participant` has run"
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{path}: is no ledger ({error})") from None
    for each in pages.entries:
        if pages.participant not in (each.buyer, each.seller):
            raise InvalidArgumentError(
                f"{path}: {each.loan.task} is between {each.buyer} and {each.seller}, not of "
                f"{pages.participant}"
            )
    return Ledger(pages.participant, pages.entries, dict(pages.settled), pages.disputes)


def show_ledger(ledger: Ledger, console: Console) -> None:
    table = Table(title=f"Ledger of {ledger.me}", title_justify="left")
    for column in ("partner", "periods bought", "paid", "periods sold", "received", "balance"):
        table.add_column(column, justify="left" if column == "partner" else "right")
    for partner in ledger.partners:
        entries = ledger.with_partner(partner)
        bought = [each.amount for each in entries if each.buyer == ledger.me]
        sold = [each.amount for each in entries if each.seller == ledger.me]
        table.add_row(
            partner,
            f"{len(bought):,}",
            f"{sum(bought):,.4g}",
            f"{len(sold):,}",
            f"{sum(sold):,.4g}",
            f"{ledger.balance(partner):,.4g}",
        )
    console.print(table)
    for dispute in ledger.disputes.values():
        console.print(f"disputed: {dispute}", markup=False, highlight=False, soft_wrap=True)


def compare(mine: Ledger, theirs: Ledger, console: Console) -> bool:
    """Print where they differ; True if they agree."""
    found = reconcile(mine, theirs)
    for difference in found:
        console.print(str(difference), markup=False, highlight=False, soft_wrap=True)
    if not found:
        count = len(mine.with_partner(theirs.me))
        balance = mine.balance(theirs.me)
        console.print(
            f"{mine.me} and {theirs.me} agree: {count} periods, balance {balance:,.6g}",
            highlight=False,
        )
    return not found
