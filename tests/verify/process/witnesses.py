"""Verifiers for tests: what Spark's tasks tell goes through a folder to the protocol's verifier."""

from __future__ import annotations

import pickle
import secrets
from dataclasses import dataclass
from pathlib import Path

from pyspark import TaskContext

from holdfast.errors import StoreUnavailableError
from holdfast.verify.machine import Report, Standing, Verifier

__all__ = ["FolderVerifiers", "FolderWitness"]


@dataclass(frozen=True)
class FolderWitness:
    """Leaves what it is told in a folder, where `told` and `FolderVerifiers` find it."""

    folder: Path
    replica: int = 1
    is_deaf_in_tasks: bool = False

    def report(self, report: Report) -> None:
        if self.is_deaf_in_tasks and TaskContext.get() is not None:
            raise StoreUnavailableError("no verifier answers")
        self._leave(report)

    def broken(self, stage: str, number: int, maker: int) -> None:
        self._leave((stage, number, maker, self.replica))

    def _leave(self, what: object) -> None:
        name = secrets.token_hex(8)
        part = self.folder / f"{name}.part"
        part.write_bytes(pickle.dumps(what))
        part.rename(self.folder / f"{name}.told")

    def told(self) -> list:
        """All that was told, and forgotten by that."""
        found = []
        for path in sorted(self.folder.glob("*.told")):
            found.append(pickle.loads(path.read_bytes()))
            path.unlink()
        return found


class WaitsError(Exception):
    """A replica can do nothing until others have done something."""


class FolderVerifiers:
    """One verifier, in this process."""

    def __init__(self, verifier: Verifier, folder: Path) -> None:
        self.verifier = verifier
        self.witness = FolderWitness(folder)
        self.reports: list[Report] = []

    def consult(self) -> Standing:
        for told in self.witness.told():
            if isinstance(told, Report):
                self.verifier.report(told, 0.0)
                self.reports.append(told)
            else:
                self.verifier.broken(*told, 0.0)
        return self.verifier.standing()

    def wait(self, known: Standing) -> None:
        raise WaitsError
