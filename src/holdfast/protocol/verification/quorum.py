"""How many replicas a job has, and how many of them must agree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import InvalidArgumentError

__all__ = ["Model", "Quorum"]


class Model(StrEnum):
    """What may go wrong with a replica."""

    CRASH = "crash"
    """It ends or hangs; what it says is right."""
    BYZANTINE = "byzantine"
    """It may say and do anything."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """For `faults` replicas that go wrong in any one stage."""

    model: Model
    faults: int = 1

    def __post_init__(self) -> None:
        if self.faults < 1:
            raise InvalidArgumentError(f"faults: {self.faults} is too few; give at least 1")

    @property
    def replicas(self) -> int:
        """How many there are; they are numbered from 1."""
        return self.faults + 1 if self.model is Model.CRASH else 3 * self.faults + 1

    @property
    def numbers(self) -> range:
        return range(1, self.replicas + 1)

    @property
    def needed(self) -> int:
        """How many must agree. Any two such groups of liars and others share an honest replica, so
        that no two digests can both be agreed upon."""
        return 1 if self.model is Model.CRASH else 2 * self.faults + 1

    @property
    def credible(self) -> int:
        """So many who say the same are not all liars."""
        return 1 if self.model is Model.CRASH else self.faults + 1
