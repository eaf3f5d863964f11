"""Records that a load manager writes before it says or does anything binding.

The journal is the list of these. `Books` made of it are those of the manager before it crashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from holdfast.federation.machine.costs import Load
from holdfast.federation.machine.ledger import Account, Dispute, Entry
from holdfast.federation.machine.messages import Epoch, LoanId, Task


class State(Enum):
    """Of what one holds."""

    PREPARING = "preparing"
    MINE = "mine"
    """To run, or to lend."""
    BACK = "back"
    """Given back; the lender has not said that it knows."""
    OVERRULED = "overruled"


class LoanState(Enum):
    """Of what one has lent, or is about to."""

    SHIPPING = "shipping"
    HANDED = "handed"
    OUT = "out"
    FENCING = "fencing"


@dataclass(slots=True)
class Loan:
    """Something that I hold and a partner is to run."""

    id: LoanId
    partner: str
    price: float
    units: float
    duration: int | None
    epoch: Epoch
    state: LoanState = LoanState.SHIPPING
    bucket: int = 0
    handed: int = 0
    """When it was handed over: nothing can have been served before."""
    since: int = 0
    """The begin of its last period."""
    periods: int = 0
    served: int = 0
    """Microseconds that the partner has a receipt for."""
    asked: tuple[int, float] | None = None
    """The period for which it is to be renewed, and the units that are paid for it."""
    home: Epoch = ()


@dataclass(slots=True)
class Holding:
    """A task of my own, or one that I have borrowed. `prefix`: of the epochs that I give."""

    key: LoanId
    task: Task
    prefix: Epoch
    state: State
    running: Epoch
    """The epoch as which I run it."""
    turns: int = 0
    loan: Loan | None = None
    price: float = 0.0
    units: float = 0.0
    duration: int | None = None
    onward: bool = True
    bucket: int = 0
    since: int = 0
    """The begin of its last period."""
    periods: int = 0
    served: int | None = None
    """Microseconds for which there is a receipt; None: the lender has given none."""
    claimed: int = 0
    """Microseconds of service that I have written down; all of them, when it is given back."""

    @property
    def is_here(self) -> bool:
        """Whether it is for me to run: until it is handed over, though it may be about to go."""
        return self.state is State.MINE and (
            self.loan is None or self.loan.state is LoanState.SHIPPING
        )

    @property
    def is_idle(self) -> bool:
        """Here, and not about to go."""
        return self.state is State.MINE and self.loan is None

    @property
    def next_epoch(self) -> Epoch:
        return (*self.prefix, self.turns + 1)


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
