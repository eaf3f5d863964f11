"""What the verifier answers: how the job stands, what was agreed upon, who was found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from holdfast.protocol.verification.reports import Run

__all__ = [
    "Agreed",
    "Doubt",
    "Finding",
    "Holder",
    "JobState",
    "Kind",
    "StageState",
    "Standing",
    "Verdict",
]


class StageState(StrEnum):
    OPEN = "open"
    """Not all of its slices are agreed upon, in the run that the verdict names."""
    OK = "ok"
    """All are."""


class JobState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    """All outputs are agreed upon; they may be delivered."""
    FAILED = "failed"
    """Nothing may be delivered any more; the failure says why and names who disagreed."""


class Kind(StrEnum):
    """What somebody was found to have done."""

    OUTVOTED = "outvoted"
    """It said something else than was agreed upon."""
    MISSING = "missing"
    """It has not said anything for too long, or its process has ended."""
    OVER_QUOTA = "over-quota"
    """It took more of the storage than it may, and was ended."""
    EQUIVOCATED = "equivocated"
    """It has said two different things of the same slice."""
    BROKEN_DATA = "broken-data"
    """Its file does not have the digest that it reported, and nobody else can write there."""
    SPOILED_FILE = "spoiled-file"
    """Not of one replica: a file does not have the digest that was reported, and others than the
    replica that made it can write there."""
    MISPLACED = "misplaced"
    """It ran on a host where it was not to run."""
    SHARED_HOST = "shared-host"
    """It ran on a host where another replica of the stage ran too."""
    NO_QUORUM = "no-quorum"
    """Not of one replica: too few agreed, and the stage or the job is computed again."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a user should know of. `replica` is 0 if it is not about one."""

    kind: Kind
    replica: int
    host: str
    stage: str
    run: Run
    slice: int
    """-1 if it is not about one."""
    text: str
    dissenters: tuple[int, ...] = ()
    """Where too few agreed: who has reported something else than most, in the order in which they
    should try elsewhere."""
    seq: int | None = None
    """Of the chunk that it is about, if it is about one."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A replica that said what was agreed upon, and where its copy lies."""

    replica: int
    host: str
    path: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """A copy of which too few to be believed say that it is broken. The coordinator, who is
    believed, hashes it and says so if it is."""

    stage: str
    slice: int
    holder: Holder


@dataclass(frozen=True, slots=True)
class Agreed:
    """A slice that is agreed upon. Whoever reads a copy hashes it again: storage is not trusted."""

    digest: bytes
    rows: int
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one stage stands."""

    stage: str
    run: Run
    """The run in which it is to be computed and reported now, or was agreed upon."""
    state: StageState
    slices: Mapping[int, Agreed]
    """Those agreed upon so far."""

    @property
    def is_ok(self) -> bool:
        return self.state is StageState.OK

    def digests(self, count: int) -> tuple[bytes, ...]:
        """Those of all `count` slices of a stage that is OK."""
        return tuple(self.slices[number].digest for number in range(count))


@dataclass(frozen=True, slots=True)
class Standing:
    """How the whole job stands."""

    state: JobState
    verdicts: Mapping[str, Verdict]
    findings: tuple[Finding, ...] = ()
    failure: str = ""
    """Why it has failed, with the replicas that disagreed and the remedy."""
    doubts: tuple[Doubt, ...] = ()
    """Copies that the coordinator is to look at."""
