"""What a replica tells the verifier of one slice that it has computed."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from holdfast.errors import InvalidArgumentError

__all__ = ["MAX_CHUNKS", "Report", "Run"]

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
