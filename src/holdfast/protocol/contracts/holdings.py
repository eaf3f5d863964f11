"""What a participant holds: tasks of its own, borrowed ones, and where those are that it lent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from holdfast.protocol.contracts.tasks import Epoch, LoanId, Task

__all__ = ["Holding", "Loan", "LoanState", "State"]


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
