"""Reports to the verifier, its findings and its verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from holdfast.errors import InvalidArgumentError

MAX_CHUNKS = 4096
"""Of one slice."""


class Run(NamedTuple):
    """Which time a stage is computed."""

    epoch: int = 0
    """How often the whole job was begun again."""
    attempt: int = 0
    """How often this stage was, in this epoch."""

    def __str__(self) -> str:
        return f"{self.epoch}.{self.attempt}"


@dataclass(frozen=True, slots=True)
class Report:
    """Said by a task of a replica when its slice lies in storage."""

    job: str
    stage: str
    run: Run
    slice: int
    replica: int
    host: str
    """Where the task ran."""
    path: str
    """Of the slice's file, in the storage that all replicas see: below JOB/REPLICA, where no other
    replica's files are, so that as many copies as there are holders are as many files."""
    digest: bytes
    rows: int
    basis: bytes
    """What the stage was computed from: see `basis_of`. A report counts only if its basis is what
    the parents' slices were agreed to be; a replica that computes again from other inputs has
    another basis, and so does not contradict itself."""
    seq: int | None = None
    """The number of a chunk that the user's code has verified; None for the slice as a whole."""
    data: bytes | None = None
    """The chunk itself, where it is told raw."""

    def check(self, retries: int) -> None:
        """Raises InvalidArgumentError for what makes no sense in any job."""
        if min(self.run) < 0 or max(self.run) > retries:
            raise InvalidArgumentError(
                f"run: there is no run {self.run}; nothing is computed more than {retries} times "
                "again"
            )
        if self.seq is not None and not 0 <= self.seq < MAX_CHUNKS:
            raise InvalidArgumentError(
                f"seq: there is no chunk {self.seq}; they are numbered 0 to {MAX_CHUNKS - 1}"
            )
        if self.data is not None:
            if self.seq is None:
                raise InvalidArgumentError(
                    "data: a whole slice lies in storage; tell chunks raw, or its digest"
                )
            if sha256(self.data).digest() != self.digest:
                raise InvalidArgumentError(
                    f"data: what replica {self.replica} tells has another digest than it says"
                )
        own = f"{self.job}/{self.replica}/"
        if self.seq is None and not self.path.startswith(own):
            raise InvalidArgumentError(
                f"path: {self.path[:100]!r} is no file of replica {self.replica}; those begin with "
                f"{own}"
            )
        if self.rows < 0:
            raise InvalidArgumentError(f"rows: {self.rows} is less than none")


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


MAX_FINDINGS = 64
"""Of one kind, of one replica, in one stage."""


class Findings:
    """In the order in which they were made, each once."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}
        self._counts: Counter[tuple[Kind, int, str]] = Counter()

    def add(self, finding: Finding) -> None:
        topic = (finding.kind, finding.replica, finding.stage)
        if finding in self._found or self._counts[topic] > MAX_FINDINGS:
            return
        self._counts[topic] += 1
        if self._counts[topic] > MAX_FINDINGS:
            text = "and so again, more often than is told here"
            finding = Finding(*topic[:2], "", finding.stage, finding.run, -1, text)
        self._found[finding] = None

    def withdraw(self, is_wrong: Callable[[Finding], bool]) -> None:
        """Forget what turns out not to be so."""
        for finding in [each for each in self._found if is_wrong(each)]:
            del self._found[finding]
            self._counts[finding.kind, finding.replica, finding.stage] -= 1

    @property
    def all(self) -> tuple[Finding, ...]:
        return tuple(self._found)

    @property
    def topics(self) -> int:
        """How many things there are to tell, if the same of one replica in one stage is one."""
        return len(+self._counts)
