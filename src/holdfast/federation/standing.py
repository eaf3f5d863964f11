"""How a participant stands, as a file beside its ledger: what runs where, and who is silent.

Written every second, for its operator's eyes: `holdfast console` shows it. Nothing depends on it,
so a disk that is full stops nothing here.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.contracts import Holding, Loan, LoanId, Manager

__all__ = ["STANDING", "Move", "Standing", "read_standing", "standing_of", "write_standing"]

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
