"""How a job is run: the settings that the verifier goes by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.verification.course import Mode

__all__ = ["Rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    mode: Mode = Mode.HYBRID
    retries: int = 3
    """How often a stage is computed again, or the whole job in mode non-blocking."""
    patience: float = 300.0
    """Seconds that a replica may be behind when as many as must agree have reported a slice, and
    seconds to wait for replicas to come back when too few are left. Longer than a stage takes."""
    limit: float | None = None
    """Seconds without any news after which the job has failed."""
    shared_hosts: bool = False
    """Whether replicas may share a host; for development."""
    own_files: bool = False
    """Whether only a replica itself can write where its files lie. If not, nobody is accused for a
    file that is wrong: another one may have changed it."""
    pools: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """The hosts where each replica is to run; one without a pool may run anywhere."""

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise InvalidArgumentError(f"retries: {self.retries} is too few; give 0 or more")
        if self.patience <= 0:
            raise InvalidArgumentError(f"patience: {self.patience:g} is too short; give more")
        if self.limit is not None and self.limit <= 0:
            raise InvalidArgumentError(f"limit: {self.limit:g} is too short; give more")
