"""What a load manager writes down before it says or does anything that binds it.

The journal is the list of these. `Books` made of it are those of the manager before it crashed.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.protocol.contracts.holdings import Holding
from holdfast.protocol.contracts.ledger import Account, Dispute, Entry
from holdfast.protocol.contracts.loads import Load
from holdfast.protocol.contracts.tasks import Epoch, LoanId, Task

__all__ = [
    "Aborted",
    "Asked",
    "Back",
    "Begun",
    "Borrowed",
    "Claimed",
    "Counted",
    "Disputed",
    "Ended",
    "Failed",
    "Gone",
    "Handed",
    "Home",
    "Lent",
    "Lot",
    "Offered",
    "Out",
    "Overruled",
    "Owned",
    "Promised",
    "Record",
    "Released",
    "Restated",
    "Served",
    "Settled",
    "Summary",
    "Told",
    "Took",
    "Unpromised",
]


@dataclass(frozen=True, slots=True)
class Begun:
    """A life in which something is said: no two have the same number."""

    life: int


@dataclass(frozen=True, slots=True)
class Owned:
    """A task of my own clients."""

    task: Task


@dataclass(frozen=True, slots=True)
class Gone:
    """A task of my own has ended."""

    task: str


@dataclass(frozen=True, slots=True)
class Restated:
    """A task that I run takes as much as this."""

    key: LoanId
    load: Load


# As buyer.


@dataclass(frozen=True, slots=True)
class Offered:
    """I have offered what I hold under these keys, as the tasks were then."""

    number: int
    partner: str
    price: float
    keys: tuple[LoanId, ...]
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """An offer that came to nothing, and binds nobody."""

    number: int


@dataclass(frozen=True, slots=True)
class Released:
    """An offer that came to nothing; the partner may still keep a place, until it is told."""

    number: int


@dataclass(frozen=True, slots=True)
class Lot:
    """What I hold under `key`, as it is to be lent."""

    key: LoanId
    units: float
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Lent:
    """An offer has come to a deal: these go to the partner."""

    number: int
    partner: str
    price: float
    duration: int | None
    lots: tuple[Lot, ...]


@dataclass(frozen=True, slots=True)
class Aborted:
    """It stays here after all: never said from which bucket on it would go."""

    loan: LoanId


@dataclass(frozen=True, slots=True)
class Handed:
    """From this bucket on I do not run it."""

    loan: LoanId
    bucket: int
    at: int


@dataclass(frozen=True, slots=True)
class Out:
    """The partner runs it, and is owed the first period."""

    loan: LoanId
    at: int


@dataclass(frozen=True, slots=True)
class Asked:
    """I have asked the partner to keep it for another period, and shall pay for that."""

    loan: LoanId
    period: int
    units: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The partner does not answer: I run it as this epoch as soon as its outputs are fenced."""

    loan: LoanId
    epoch: Epoch
    account: Account


@dataclass(frozen=True, slots=True)
class Home:
    """I run it again, as this epoch. The account is None when it was settled before."""

    loan: LoanId
    epoch: Epoch
    account: Account | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """The partner knows that a loan is cancelled, or an offer released (task "")."""

    loan: LoanId


# As seller.


@dataclass(frozen=True, slots=True)
class Promised:
    """I keep a place for these until then; a buyer's promises have ascending numbers."""

    buyer: str
    number: int
    price: float
    tasks: tuple[Task, ...]
    until: int


@dataclass(frozen=True, slots=True)
class Unpromised:
    buyer: str
    number: int


@dataclass(frozen=True, slots=True)
class Borrowed:
    """A promise is kept: I prepare to run this task."""

    loan: LoanId
    task: Task
    epoch: Epoch
    price: float
    units: float
    duration: int | None
    onward: bool


@dataclass(frozen=True, slots=True)
class Took:
    """I run it from this bucket on, and am owed the first period."""

    loan: LoanId
    bucket: int
    at: int


@dataclass(frozen=True, slots=True)
class Back:
    """From this bucket on I do not run it; its lender does. I have served so long."""

    loan: LoanId
    bucket: int
    served: int


@dataclass(frozen=True, slots=True)
class Overruled:
    """Its outputs are refused: somebody above me runs it."""

    key: LoanId


@dataclass(frozen=True, slots=True)
class Ended:
    """A loan to me is over; None: it had not begun."""

    loan: LoanId
    account: Account | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """Of a loan to me, I have served so many microseconds, receipted or not."""

    loan: LoanId
    served: int


# Of both.


@dataclass(frozen=True, slots=True)
class Served:
    """A later period of a loan for which money is due, from then on."""

    loan: LoanId
    period: int
    units: float
    at: int


@dataclass(frozen=True, slots=True)
class Counted:
    """Of a loan, so many microseconds of service were receipted, or are about to be."""

    loan: LoanId
    served: int


@dataclass(frozen=True, slots=True)
class Disputed:
    """We do not agree on the end of a loan."""

    dispute: Dispute


@dataclass(frozen=True, slots=True)
class Summary:
    """All that the books say: it stands for every record before it, which need not be kept."""

    holdings: tuple[Holding, ...]
    offers: tuple[Offered, ...]
    number: int
    promises: tuple[Promised, ...]
    promised: tuple[tuple[str, int], ...]
    """Buyers, and the highest number that each was promised anything for."""
    untold: tuple[tuple[LoanId, str, Account], ...]
    """Loans that are over, whom to tell, and what is paid."""
    entries: tuple[Entry, ...]
    """Of the ledger, as what follows."""
    settled: tuple[tuple[LoanId, Account], ...] = ()
    disputes: tuple[Dispute, ...] = ()
    life: int = 0


Record = (
    Begun
    | Owned
    | Gone
    | Restated
    | Offered
    | Settled
    | Released
    | Lent
    | Aborted
    | Asked
    | Handed
    | Out
    | Failed
    | Home
    | Told
    | Promised
    | Unpromised
    | Borrowed
    | Took
    | Back
    | Overruled
    | Ended
    | Claimed
    | Served
    | Counted
    | Disputed
    | Summary
)
