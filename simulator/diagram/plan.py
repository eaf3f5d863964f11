"""What a stage is to run, and what its replicas must know about it to say how their streams are."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.pipeline.machine.states import AllOf, AnyOf, Reach
from simulator.diagram.operators import Operator


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of a stage; all its inputs come by time, in the one order of their stream."""

    name: str
    operator: Operator
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Output:
    """A stream that leaves a stage, and how inputs of the stage reach it (digest §3.3, App A)."""

    stream: str
    inputs: frozenset[str]
    """Those that reach it."""
    blocking: frozenset[str]
    """Those that reach it through a blocking operator."""
    operators: tuple[tuple[str, frozenset[str]], ...]
    """The operators on the way, with the inputs that contribute to each."""
    needs: frozenset[frozenset[str]]
    """Rows come as long as of each of these sets one input is there; no set contains another.

    This is sharper than the two above, by which a filter before a union would block the union.
    """

    @property
    def reach(self) -> Reach:
        """The same in the terms of a replica."""
        return AllOf(tuple(AnyOf(tuple(sorted(n))) for n in sorted(self.needs, key=sorted)))


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A stage: one gate over all its inputs, operators behind it, streams that leave it."""

    name: str
    inputs: tuple[str, ...]
    """From sources and other stages; all behind one gate, for a stage works bucket by bucket."""
    steps: tuple[Step, ...]
    """Each after those that it reads from."""
    outputs: tuple[Output, ...]
    convergent: bool
    """Whether it recovers by reading on; otherwise a peer's state is copied and upstream waits."""
    span: float
    """How far back in event time its state depends on input: the windows on the longest path."""
