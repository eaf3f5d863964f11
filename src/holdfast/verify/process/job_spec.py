"""Job spec of the verifiers: plan, quorum, rules, keys.

Written once by whoever submits the job, and read by each verifier when it starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from holdfast.errors import InvalidArgumentError
from holdfast.storage.signing import KEY_SIZE
from holdfast.verify.machine import (
    COORDINATOR,
    Model,
    Plan,
    Quorum,
    Rules,
    Verifier,
)
from holdfast.verify.process.messages import read_paper, write_paper


@dataclass(frozen=True)
class Charter:
    job: str
    stages: dict[str, tuple[str, ...]]
    """The parents of each."""
    slices: int
    model: Model
    faults: int
    rules: Rules
    keys: dict[int, bytes]
    """The public keys, by number of the replica; the coordinator's is that of 0."""
    peer_key: bytes = field(default=b"", repr=False)
    """By it verifiers know each other. Who has it is handed what replicas have reported, before it
    is agreed upon."""
    pins: bytes = b""
    """See `Plan`."""

    def __post_init__(self) -> None:
        wanted = {COORDINATOR, *self.quorum.numbers}
        if set(self.keys) != wanted or any(len(key) != KEY_SIZE for key in self.keys.values()):
            raise InvalidArgumentError(
                f"keys: give one of {KEY_SIZE} bytes for each of {sorted(wanted)}"
            )
        if not self.job or "/" in self.job:
            raise InvalidArgumentError("job: give a name without '/'")

    @property
    def plan(self) -> Plan:
        return Plan(self.stages, self.slices, self.pins)

    @property
    def quorum(self) -> Quorum:
        return Quorum(self.model, self.faults)

    def verifier(self) -> Verifier:
        """A new one that has heard nothing."""
        return Verifier(self.job, self.plan, self.quorum, self.rules)

    def write(self, path: Path) -> None:
        write_paper(path, self)

    @classmethod
    def read(cls, path: Path) -> Charter:
        return read_paper(path, cls, "name the charter of a job", "this is no charter of a job")


@dataclass(frozen=True)
class VerifierOrders:
    """The orders of a verifier on another host. They have a secret: they travel by pipes."""

    charter: Charter
    token: str | None = field(default=None, repr=False)

    def encode(self) -> bytes:
        """One line."""
        return msgspec.json.encode(self) + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> VerifierOrders:
        try:
            return msgspec.json.decode(line, type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidArgumentError(
                f"orders: {error}; give those of a verifier, as a line of JSON"
            ) from None
