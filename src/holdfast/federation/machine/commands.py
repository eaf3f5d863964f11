"""Commands of a load manager to its process, and its times and margins.

What is to be persisted must be safe before anything after it is done. A crash may come between any
two.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from holdfast.errors import InvalidArgumentError
from holdfast.federation.machine.contract import Contract
from holdfast.federation.machine.messages import Epoch, Letter
from holdfast.federation.machine.records import Record

SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Rules:
    """Times are in microseconds."""

    period: int = 10 * SECOND
    """Between two rounds of offers: as long as measured loads need to follow a move."""
    pause: int = 0
    """After a partner that has not taken anything, before the next is asked."""
    gather: int = SECOND // 10
    """How long offers are gathered before the best paid are taken."""
    answer: int = 2 * SECOND
    """A partner that has not answered an offer by then is taken to refuse."""
    backoff: int | None = None
    """Before a partner that has refused is asked again; None: the duration of its contract."""
    retry: int = SECOND // 2
    """Before something is said again that was not answered; longer and longer."""
    prepare: int = 120 * SECOND
    """A partner that is not ready to run a task by then does not get it."""
    beat: int = SECOND
    patience: int = 10 * SECOND
    """Silence after which a partner is taken to have failed."""
    margin: float = 0.0
    """The share of a price by which a move must pay, on either side: against loads that tremble."""
    tolerance: float = 0.1
    """The share by which a task may take more than is paid for another period of it."""
    migration: float = 0.0
    """What one move of a task costs, in the money of the costs and per duration."""
    competitors: int = 0
    """Sellers that one thinks to compete with when asking for more than the lowest price; 0: ask
    for one's valuation itself, as the document's simulator does."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value < 0:
                raise InvalidArgumentError(f"{field.name}: {value} is below 0; give 0 or more")
        for name in ("period", "answer", "retry", "beat", "patience", "prepare"):
            if getattr(self, name) == 0:
                raise InvalidArgumentError(f"{name}: 0 leaves no time; give more")
        for name in ("margin", "tolerance"):
            if getattr(self, name) >= 1:
                raise InvalidArgumentError(
                    f"{name}: {getattr(self, name)} leaves nothing; give less than 1"
                )


def longest_hold(contract: Contract, rules: Rules) -> int:
    """Microseconds for which a place is kept at most that was promised and is not taken."""
    return rules.prepare if contract.duration is None else contract.duration


@dataclass(frozen=True, slots=True)
class Persist:
    record: Record


@dataclass(frozen=True, slots=True)
class Send:
    """One that binds must be kept, as it is sent, before it is."""

    to: str
    letter: Letter


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep the letter just received, as it came: it binds its sender."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Get a task's state from who runs it now, and follow: `prepared`, or `unable`."""

    task: str
    epoch: Epoch
    source: str


@dataclass(frozen=True, slots=True)
class Start:
    """Run a task from this bucket on."""

    task: str
    epoch: Epoch
    bucket: int


@dataclass(frozen=True, slots=True)
class Halt:
    """End the bucket in hand and begin no other: `halted`, with the first that was not begun."""

    task: str
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on after all."""

    task: str
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Stop:
    """Drop what runs, follows or is halted."""

    task: str
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Fence:
    """Have the task's readers refuse what is of a lower epoch: `fenced`, with the first bucket that
    they have not got; or `refused`, if they have heard of a higher one."""

    task: str
    epoch: Epoch


Command = Persist | Send | Keep | Prepare | Start | Halt | Resume | Stop | Fence
