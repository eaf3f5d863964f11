"""How one input is made of what several replicas publish, where they are compared.

Used by whoever reads: replicas of a stage, sinks, the simulator. `switch` and `order` are not here,
for they read one replica at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Final

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.findings import Findings
from holdfast.protocol.gates import First, Gate, Latest, Sample, Vote, VoteLatest
from holdfast.protocol.gates.sample import KEY_BYTES
from holdfast.protocol.pace import Rest
from holdfast.protocol.vote_intake import ROOM, VoteIntake

__all__ = ["COMPARING", "VOTING", "Comparison", "stream_key"]

VOTING: Final = ("vote", "vote-latest", "sample")
"""Those that outvote `faults` replicas of 3 · faults + 1."""
COMPARING: Final = (*VOTING, "first", "latest")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A policy that reads all replicas at once, and its settings."""

    policy: str
    faults: int = 1
    """How many replicas may lie; of no account with `first` and `latest`."""
    every: int = 10
    """`sample` votes on one bucket of so many, on average."""
    barrier: int = 0
    """So long all replicas are waited for at the start."""
    proofs: int = 3
    """After so many accusations the votes of a replica count no more."""
    room: int = ROOM
    """With more copies than this waiting for a decision, the fastest replica rests."""
    rest: Rest = Rest.DISTANCE
    """For how long."""

    def __post_init__(self) -> None:
        if self.policy not in COMPARING:
            raise InvalidArgumentError(
                f"policy: {self.policy!r} does not compare replicas; give one of "
                f"{', '.join(COMPARING)}"
            )
        if self.room < 0:
            raise InvalidArgumentError(f"room: is {self.room}; give 0 or more copies")

    def findings(self) -> Findings:
        return Findings(self.faults, self.proofs)

    def intake(
        self,
        stream: str,
        replicas: Sequence[str],
        *,
        size: int,
        grace: int,
        position: int = 0,
        findings: Findings | None = None,
        secret: bytes = b"",
    ) -> VoteIntake:
        """`size`: of the stream's buckets. `grace`: a heartbeat sent so much later than a
        subscription does not overtake it. `position`: what is before has been read. `secret`:
        random bytes of this reader alone, from which `sample` draws; the others need none."""
        if self.policy == "sample" and not secret:
            raise InvalidArgumentError(
                "secret: is empty, and 'sample' would draw what everybody can predict; give "
                f"{KEY_BYTES} random bytes"
            )
        agreed = len(replicas) - self.faults if self.policy in VOTING else 1
        intake = VoteIntake(
            stream,
            partial(self._gate, tuple(replicas), stream_key(secret, stream)),
            replicas,
            size=size,
            grace=grace,
            enough=agreed if self.policy in ("vote", "vote-latest") else 1,
            quorum=agreed,
            barrier=self.barrier,
            room=self.room,
            rest=self.rest,
            findings=findings or self.findings(),
        )
        intake.jump(position)
        return intake

    def _gate(self, replicas: tuple[str, ...], key: bytes, first: int) -> Gate:
        match self.policy:
            case "vote":
                return Vote(replicas, self.faults, first=first)
            case "vote-latest":
                return VoteLatest(replicas, self.faults, first=first)
            case "sample":
                return Sample(replicas, self.faults, key=key, every=self.every, first=first)
            case "first":
                return First(replicas, first=first)
            case _:
                return Latest(replicas, first=first)


def stream_key(secret: bytes, stream: str) -> bytes:
    """Another key for each stream: samples of one say nothing about those of another."""
    return blake2b(stream.encode(), key=secret, digest_size=KEY_BYTES).digest()
