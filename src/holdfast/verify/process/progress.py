"""Journal of the coordinator, from which a killed job goes on.

Each verifier has a journal of its own, with every report. Here stands only what they are not told:
which replicas were started where, which stages were seen to be agreed upon, what was delivered. An
entry is on disk before the coordinator acts on it. `Progress` is what the entries come to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import msgspec

from holdfast.storage.journal import Journal
from holdfast.verify.machine import Run

FOLDER: Final = "coordinator"
"""Of the journal, in that of the submission."""


class _Entry(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """One entry. `at`: seconds since this life of the coordinator began."""


class Submitted(_Entry, frozen=True, tag="submitted"):
    """The first entry."""

    name: str
    submitted: int
    """In microseconds since 1970."""
    pins: dict[str, str]
    """Digests of all that may not change until the job is done, by what it is."""
    quota: int | None = None
    """Bytes that one replica may take: what is free later is less, by what they have written."""


class Began(_Entry, frozen=True, tag="began"):
    """A life of the coordinator begins."""


class Started(_Entry, frozen=True, tag="started"):
    """A replica is started."""

    at: float
    replica: int
    pool: str


class Ended(_Entry, frozen=True, tag="ended"):
    """The process of a replica has ended."""

    at: float
    replica: int
    code: int


class Failed(_Entry, frozen=True, tag="failed"):
    """One of the starts that a replica may have is used up."""

    at: float
    replica: int
    is_lost: bool
    """It has no more."""


class Moved(_Entry, frozen=True, tag="moved"):
    """A replica is to run in another pool from now on."""

    at: float
    replica: int
    pool: str


class Dissented(_Entry, frozen=True, tag="dissented"):
    """A replica has reported something else than most where too few agreed; that was seen to."""

    at: float
    stage: str
    run: Run
    replica: int


class VerifierStarted(_Entry, frozen=True, tag="verifier"):
    """A verifier is started again in the same life."""

    at: float
    number: int


class AgreedUpon(_Entry, frozen=True, tag="agreed"):
    """A stage was agreed upon. Whatever comes later, its digests stay these."""

    at: float
    stage: str
    digest: bytes
    """Over those of its slices."""


class Delivering(_Entry, frozen=True, tag="delivering"):
    """The result is written under another name, and gets its own next."""

    at: float
    rows: int
    device: int
    inode: int
    modified: int
    """In nanoseconds since 1970. By these three the folder is known again."""


class Writing(_Entry, frozen=True, tag="writing"):
    """A write of the program begins."""

    at: float
    name: str


class Written(_Entry, frozen=True, tag="written"):
    """It is done."""

    at: float
    name: str
    target: str
    """For people."""


class Ticked(_Entry, frozen=True, tag="ticked"):
    """The coordinator still runs: without these, nobody knows how long a killed one did."""

    at: float


Noted = (
    Submitted
    | Began
    | Started
    | Ended
    | Failed
    | Moved
    | Dissented
    | VerifierStarted
    | AgreedUpon
    | Delivering
    | Writing
    | Written
    | Ticked
)


@dataclass
class Past:
    """One replica, in all lives."""

    pools: list[str] = field(default_factory=list)
    """Where it was started, one after the other."""
    pool: str = ""
    """Where it is started next; empty as long as it is where it was planned."""
    failures: int = 0
    is_lost: bool = False
    code: int | None = None
    """By which it has ended, if that was the last of it and verifiers may not know."""
    seconds: float = 0.0
    """How long it ran, in lives that are over or until it ended."""
    since: float | None = None
    """When it was started, in this life; None if it does not run."""


@dataclass
class Progress:
    """A state machine: the same entries in the same order make the same progress."""

    submitted: Submitted | None = None
    lives: int = 0
    seconds: float = 0.0
    """How long the coordinator ran, in lives that are over."""
    replicas: dict[int, Past] = field(default_factory=dict)
    dissents: set[tuple[str, Run, int]] = field(default_factory=set)
    agreed: dict[str, bytes] = field(default_factory=dict)
    """The digest of each stage that was seen to be agreed upon."""
    verifier_starts: int = 0
    deliveries: list[Delivering] = field(default_factory=list)
    writes: dict[str, bool] = field(default_factory=dict)
    """Those that were begun; True if they are done."""
    written: dict[str, str] = field(default_factory=dict)
    """Where those went that are done."""
    _now: float = 0.0
    """When something was noted last, in this life."""

    def apply(self, event: Noted) -> None:
        if not isinstance(event, Submitted | Began):
            self._now = event.at
        match event:
            case Submitted():
                self.submitted = event
            case Began():
                self._end_life()
            case Started(at, replica, pool):
                past = self.replica(replica)
                past.pools.append(pool)
                past.pool = pool
                past.code, past.since = None, at
            case Ended(at, replica, code):
                past = self.replica(replica)
                self._stop(past)
                past.code = code
            case Failed(_, replica, is_lost):
                past = self.replica(replica)
                past.failures += 1
                past.is_lost = is_lost
                # The verifiers know of its end by now.
                past.code = None
            case Moved(_, replica, pool):
                past = self.replica(replica)
                past.pool = pool
                # It was ended to be moved.
                self._stop(past)
            case Dissented(_, stage, run, replica):
                self.dissents.add((stage, run, replica))
            case VerifierStarted():
                self.verifier_starts += 1
            case AgreedUpon(_, stage, digest):
                self.agreed[stage] = digest
            case Delivering():
                self.deliveries.append(event)
            case Writing(_, name):
                self.writes[name] = False
            case Written(_, name, target):
                self.writes[name] = True
                self.written[name] = target

    def replica(self, number: int) -> Past:
        return self.replicas.setdefault(number, Past())

    def ran(self, number: int) -> float:
        """Seconds that a replica ran, until the coordinator was heard of last."""
        past = self.replica(number)
        return past.seconds + (0.0 if past.since is None else self._now - past.since)

    def _end_life(self) -> None:
        for past in self.replicas.values():
            self._stop(past)
        self.lives += 1
        self.seconds += self._now
        self._now = 0.0

    def _stop(self, past: Past) -> None:
        if past.since is not None:
            past.seconds += self._now - past.since
            past.since = None


class Log:
    """The journal of one submission, and what it comes to. A context manager. One process at a time
    has it; another one that wants it gets a StoreUnavailableError."""

    def __init__(self, folder: Path) -> None:
        """`folder`: of the submission."""
        self._journal: Journal[Noted] = Journal(folder / FOLDER, Noted)  # type: ignore[arg-type]
        self.progress = Progress()
        for event in self._journal.found:
            self.progress.apply(event)

    def note(self, *events: Noted) -> None:
        """All are on disk when this returns. Raises StoreUnavailableError if they are not."""
        self._journal.append(events)
        for event in events:
            self.progress.apply(event)

    def close(self) -> None:
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
