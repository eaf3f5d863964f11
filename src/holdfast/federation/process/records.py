"""Files of a participant: journal, ledger and status.

Written every second, for its operator's eyes: `holdfast console` shows it. Nothing depends on it,
so a disk that is full stops nothing here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.table import Table

from holdfast.errors import InvalidArgumentError, StoreCorruptError, WireError
from holdfast.federation.machine import (
    Account,
    Dispute,
    Entry,
    Holding,
    Ledger,
    Loan,
    LoanId,
    Manager,
    Record,
    reconcile,
)
from holdfast.federation.machine.proof import Proof, Signed, prove
from holdfast.federation.process.envelopes import open_any
from holdfast.storage.atomic_file import write_whole
from holdfast.storage.journal import Journal

KINDS: Final[Mapping[str, type[Record]]] = {kind.__name__: kind for kind in Record.__args__}


class Kept(msgspec.Struct, array_like=True, frozen=True):
    """A letter that binds, sent or received, as it was signed."""

    partner: str
    envelope: bytes


class Written(msgspec.Struct, array_like=True, frozen=True):
    """A record as it lies on disk."""

    kind: str
    body: bytes


def pack(record: Record) -> Written:
    return Written(type(record).__name__, msgspec.msgpack.encode(record))


def unpack(written: Iterable[Written]) -> list[Record]:
    found: list[Record] = []
    for number, each in enumerate(written, 1):
        kind: Any = KINDS.get(each.kind)
        try:
            if kind is None:
                raise msgspec.ValidationError(f"{each.kind!r} is no record")
            found.append(msgspec.msgpack.decode(each.body, type=kind))
        except msgspec.MsgspecError as error:
            raise StoreCorruptError(
                f"journal: entry {number} cannot be read ({error}); it is of another version"
            ) from None
    return found


def open_letters(folder: Path) -> Journal[Kept]:
    return Journal(folder, Kept)


def open_journal(folder: Path) -> Journal[Written]:
    return Journal(folder, Written)


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


STANDING: Final = "standing.json"
"""In the folder of a participant."""

logger = logging.getLogger("holdfast")


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task that is with somebody else than its lender, or is about to be."""

    loan: LoanId
    seller: str
    state: str
    """As the books call it: of a loan to others shipping, handed, out or fencing; of one to us
    preparing, mine, back or overruled."""
    price: float
    units: float
    since: int
    """Microseconds since 1970; 0 if it has not begun."""
    periods: int


class Standing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    participant: str
    at: int
    """Microseconds since 1970."""
    cpu: float
    """The share of it that all takes that runs here."""
    runs: list[str]
    moves: list[Move]
    silent: list[str]
    """Partners who do not answer."""


def standing_of(manager: Manager, now: int, wall: int) -> Standing:
    """`wall`: what date it is when the manager's time is `now`."""
    ahead = wall - now
    holdings = list(manager.books.holdings.values())
    here = [each for each in holdings if each.is_here]
    return Standing(
        manager.me,
        wall,
        sum(each.task.load.cpu for each in here),
        sorted(each.task.id for each in here),
        [
            *(_lent(each.loan, ahead) for each in holdings if each.loan is not None),
            *(
                _borrowed(each, manager.me, ahead)
                for each in holdings
                if each.key.lender != manager.me
            ),
        ],
        sorted(manager.failed),
    )


def _lent(loan: Loan, ahead: int) -> Move:
    return Move(
        loan.id,
        loan.partner,
        loan.state.value,
        loan.price,
        loan.units,
        loan.since + ahead if loan.since else 0,
        loan.periods,
    )


def _borrowed(holding: Holding, me: str, ahead: int) -> Move:
    return Move(
        holding.key,
        me,
        holding.state.value,
        holding.price,
        holding.units,
        holding.since + ahead if holding.since else 0,
        holding.periods,
    )


def write_standing(path: Path, manager: Manager, now: int, wall: int) -> None:
    unfinished = path.with_name(f".{path.name}.tmp")
    try:
        unfinished.write_bytes(msgspec.json.encode(standing_of(manager, now, wall)) + b"\n")
        unfinished.rename(path)
    except OSError as error:
        logger.warning("%s: %s; the console cannot show it", path, error.strerror)


def read_standing(path: Path) -> Standing:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Standing)
    except OSError as error:
        raise InvalidArgumentError(
            f"{path}: {error.strerror}; it is there when `holdfast participant` has run"
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(
            f"{path}: cannot be read ({error}); start `holdfast participant` of this version"
        ) from None
