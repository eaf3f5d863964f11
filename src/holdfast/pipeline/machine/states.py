"""States of nodes and of the streams they publish.

Two outputs of one node can differ: a union goes on with what is left of its inputs, a join does
not. All replicas of an input count, not only the one that is read, for the reader will switch.
(Algorithm 2 of the digest of delay-process-correct, §3.3.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class State(IntEnum):
    """How good a stream is that a replica publishes: the lower the better."""

    STABLE = 0
    """All of it is final."""
    UP_FAILURE = 1
    """Something upstream is missing: new rows, if any, are tentative."""
    STABILIZATION = 2
    """What was tentative is being corrected."""
    FAILURE = 3
    """Nothing comes: the replica cannot be reached, or what is missing blocks the stream."""


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Goes on while any part does: a union."""

    parts: tuple[Reach, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Goes on only while all parts do: a join."""

    parts: tuple[Reach, ...]


Reach = str | AnyOf | AllOf
"""How inputs reach an output: an input by its name, or what operators make of others."""


def inputs_of(reach: Reach) -> frozenset[str]:
    """All inputs that reach the output."""
    if isinstance(reach, str):
        return frozenset([reach])
    return frozenset().union(*map(inputs_of, reach.parts))


def best_state(states: Mapping[str, State]) -> State:
    """How good an input is: as good as its best replica."""
    return min(states.values(), default=State.FAILURE)


def output_state(
    reach: Reach, best: Mapping[str, State], reconciling: bool, *, forked: bool = False
) -> State:
    """The state to publish for one output.

    `best`: the state of each input, that of its best replica. `forked`: the node has shown previews
    that are not corrected yet. `reconciling`: it is correcting them. The gravest finding counts:
    blocked, then correcting, then incomplete. An input of which all replicas correct brings nothing
    new, which blocks like a lost one, except for a node that corrects along with it.
    """
    worst_usable = State.STABILIZATION if reconciling else State.UP_FAILURE
    usable = {name for name, state in best.items() if state <= worst_usable}
    if not _goes_on(reach, usable):
        return State.FAILURE
    if reconciling:
        return State.STABILIZATION
    complete = all(best.get(name) is State.STABLE for name in inputs_of(reach))
    return State.STABLE if complete and not forked else State.UP_FAILURE


def _goes_on(reach: Reach, usable: set[str]) -> bool:
    match reach:
        case AnyOf(parts):
            return any(_goes_on(part, usable) for part in parts)
        case AllOf(parts):
            return all(_goes_on(part, usable) for part in parts)
        case _:
            return reach in usable
