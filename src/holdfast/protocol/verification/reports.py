"""What a replica tells the verifier of one slice that it has computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Report", "Run"]


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
    """Of the slice's file, in the storage that all replicas see."""
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
