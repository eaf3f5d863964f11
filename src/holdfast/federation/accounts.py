"""The ledger of a participant as a file, and the report whether that of a partner says the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table

from holdfast.errors import InvalidArgumentError
from holdfast.federation.envelopes import open_any
from holdfast.federation.records import open_letters
from holdfast.parties.whole_files import write_whole
from holdfast.protocol.contracts import Account, Dispute, Entry, Ledger, LoanId, reconcile
from holdfast.protocol.contracts.proof import Proof, Signed, prove
from holdfast.wire.errors import WireError

__all__ = [
    "LEDGER",
    "compare",
    "prove_ledger",
    "read_ledger",
    "read_letters",
    "show_ledger",
    "show_proof",
    "write_ledger",
]

LEDGER: Final = "ledger.json"
"""In the folder of a participant."""


class _Pages(msgspec.Struct, forbid_unknown_fields=True):
    participant: str
    entries: list[Entry]
    settled: list[tuple[LoanId, Account]] = []
    disputes: list[Dispute] = []
    letters: list[bytes] = []
    """Only in one that was written with proofs."""


def write_ledger(
    path: Path, ledger: Ledger, partner: str | None = None, letters: Sequence[bytes] = ()
) -> None:
    """All of it; or for a partner what is between the two, for the rest is not its business."""
    entries = list(ledger if partner is None else ledger.with_partner(partner))
    loans = {each.loan for each in entries}
    pages = _Pages(
        ledger.me,
        entries,
        [each for each in ledger.settled.items() if partner is None or each[0] in loans],
        [each for each in ledger.disputes.values() if partner in (None, each.partner)],
        list(letters),
    )
    write_whole(path, msgspec.json.encode(pages) + b"\n")


def read_ledger(path: Path) -> Ledger:
    return _read(path)[0]


def read_letters(folder: Path, partner: str) -> list[bytes]:
    """The letters that bind a participant and a partner, from the folder of the participant.
    Raises while it runs."""
    with open_letters(folder) as journal:
        return [each.envelope for each in journal.found if each.partner == partner]


def prove_ledger(path: Path, others: Sequence[Path], keys: Mapping[str, bytes]) -> Proof:
    """Hold a ledger against the letters in its file, and in those of others."""
    ledger, letters = _read(path)
    for other in others:
        letters += _read(other)[1]
    signed, problems = [], []
    for number, data in enumerate(letters, 1):
        try:
            opened = open_any(data, keys)
        except WireError as error:
            problems.append(f"letter {number}: {error}")
        else:
            signed.append(Signed(opened.sender, opened.receiver, opened.letter))
    proof = prove(ledger, signed)
    return replace(proof, problems=(*problems, *proof.problems))


def show_proof(path: Path, proof: Proof, console: Console) -> bool:
    """Print what is proven and what is not; True if there is no problem."""
    lines = [f"problem: {each}" for each in proof.problems]
    lines += [f"disputed: {each}" for each in proof.disputed]
    lines += [f"contradiction: {each}" for each in proof.doubled]
    lines += [f"not here: {each}" for each in proof.missing]
    lines.append(
        f"{path.name}: {proof.proven} periods are proven, {len(proof.disputed)} loans disputed, "
        f"{len(proof.problems)} problems, {len(proof.missing)} letters missing"
    )
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return not proof.problems


def _read(path: Path) -> tuple[Ledger, list[bytes]]:
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
    ledger = Ledger(pages.participant, pages.entries, dict(pages.settled), pages.disputes)
    return ledger, pages.letters


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
