"""A job to be simulated, what goes wrong in it, and what it must come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import sha256

from holdfast.verify.machine import Plan, Quorum, Rules, basis_of


class FaultKind(StrEnum):
    WRONG = "wrong"
    """Wrong rows, each liar other ones."""
    COLLUDE = "collude"
    """Wrong rows, all liars the same."""
    COUNT = "count"
    """The right digest and a wrong number of rows."""
    HOLLOW = "hollow"
    """The right digest, and a file with other rows."""
    EQUIVOCATE = "equivocate"
    """Two different digests to each verifier."""
    SPLIT = "split"
    """Different digests to different verifiers."""
    BASIS = "basis"
    """A lie about what it was computed from."""
    FORGED_RUN = "forged-run"
    """Reports for runs that nobody has begun."""
    ACCUSE = "accuse"
    """Says of good copies that they are broken."""
    HOST = "host"
    """Says that it runs where another replica runs, or on a spare host."""
    MUTE = "mute"
    """Computes, and reports nothing."""
    HANG = "hang"
    """Does nothing any more, from this stage on."""
    CRASH = "crash"
    """Its process ends in this stage."""
    RESTART = "restart"
    """Its process ends in this stage and is started again."""
    TAMPER = "tamper"
    """Somebody alters its files when they are agreed upon."""
    REWRITE = "rewrite"
    """Alters all files that it can write to, its own among them, again and again."""


ENDING = (FaultKind.HANG, FaultKind.CRASH, FaultKind.RESTART)
"""Those after which later stages miss this replica too."""
SILENCES = (FaultKind.MUTE, *ENDING)
"""Those that are no lies."""


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    replica: int
    stage: str
    times: int = 1_000_000
    """How often: the first times that the replica computes the stage."""
    slice: int | None = None
    """None: in all slices."""


@dataclass(frozen=True)
class Job:
    """Everything that a run follows from."""

    seed: int
    plan: Plan
    quorum: Quorum
    rules: Rules
    faults: tuple[Fault, ...] = ()
    verifiers: int = 1
    bad_verifiers: frozenset[int] = frozenset()
    all_to_all: bool = False
    """Each replica has a verifier of its own and asks no other."""
    speeds: Mapping[int, float] | None = None
    """How many times longer a replica takes."""
    spares: tuple[str, ...] = ()
    """Hosts for replicas that are started again, each for one."""
    own_files: bool = True
    """Whether each replica has a place for its files where no other can write."""

    @cached_property
    def truth(self) -> dict[str, tuple[bytes, ...]]:
        """The right digests, by stage and slice."""
        truth: dict[str, tuple[bytes, ...]] = {}
        for stage, parents in self.plan.stages.items():
            basis = basis_of({parent: truth[parent] for parent in parents})
            truth[stage] = tuple(
                result_of(stage, number, basis) for number in range(self.plan.slices)
            )
        return truth

    def faulty(self, stage: str) -> set[int]:
        """The replicas on which one cannot count in a stage."""
        return {
            fault.replica
            for fault in self.faults
            if fault.stage == stage
            or (fault.kind in ENDING and stage not in self._ancestors(fault.stage))
        }

    def _ancestors(self, stage: str) -> set[str]:
        parents = self.plan.parents(stage)
        return {*parents, *(each for parent in parents for each in self._ancestors(parent))}

    @property
    def is_spoiled(self) -> bool:
        """Whether somebody alters files of others, so that it may come to no end."""
        return not self.own_files and any(each.kind is FaultKind.REWRITE for each in self.faults)

    @property
    def is_within(self) -> bool:
        """Whether no stage has more faults than the quorum is for."""
        return all(len(self.faulty(stage)) <= self.quorum.faults for stage in self.plan.stages)

    @property
    def is_within_as_whole(self) -> bool:
        """Whether the faults of all stages are those of no more replicas than it is for."""
        return len({fault.replica for fault in self.faults}) <= self.quorum.faults


def result_of(stage: str, number: int, basis: bytes) -> bytes:
    """The rows of a slice, as their digest."""
    return sha256(f"{stage}/{number}/".encode() + basis).digest()


def rows_of(data: bytes) -> int:
    return data[0]
