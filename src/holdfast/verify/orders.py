"""What one replica is told to do: a file that whoever submits the job writes for its process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from holdfast.protocol.verification import Mode
from holdfast.verify.papers import read_paper, write_paper
from holdfast.verify.source_files import SourceFile
from holdfast.wire.security import Security

__all__ = ["Orders"]


@dataclass(frozen=True)
class Orders:
    file: str
    """That describes the job."""
    job: str
    """What this submission of it is called, in reports and in the storage."""
    replica: int
    mode: Mode
    slices: int
    retries: int
    """As the verifiers have them."""
    submitted: int
    """When, in microseconds since 1970."""
    sources: dict[str, tuple[SourceFile, ...]]
    """The files that there were then."""
    storage: str
    """A folder that all replicas see, drivers and executors."""
    folder: str
    """The replica's own, on the machine of its driver."""
    verifiers: tuple[str, ...]
    """Whom it reports to."""
    asks: tuple[str, ...]
    """Whom it asks: all of them, or with one in each replica its own."""
    secret: bytes = field(repr=False)
    """Its signing key."""
    security: Security | None = field(default=None, repr=False)
    spark: dict[str, str] = field(default_factory=dict)
    """Settings of its session, among them `spark.master`."""

    def write(self, path: Path) -> None:
        """It holds secrets: nobody else can read it."""
        path.touch(mode=0o600, exist_ok=False)
        write_paper(path, self)

    @classmethod
    def read(cls, path: Path) -> Orders:
        return read_paper(
            path, cls, "name the orders of a replica", "these are no orders of a replica"
        )
