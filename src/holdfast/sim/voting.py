"""The gates that compare replicas, as the simulator sets them up."""

from __future__ import annotations

from functools import partial
from typing import Final

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.gates import First, Gate, Latest, Sample, Vote, VoteLatest
from holdfast.protocol.vote_intake import VoteIntake
from holdfast.sim.scenario import FAULTY, HEARTBEAT, MISSED, SIZE

__all__ = ["EVERY", "vote_intake"]

EVERY: Final = 5
"""`sample` votes on one bucket of so many."""


def vote_intake(policy: str, stream: str, replicas: tuple[str, ...]) -> VoteIntake:
    """The intake of a stream under this policy."""
    grace = HEARTBEAT * (MISSED + 2)
    agreed = len(replicas) - FAULTY
    return VoteIntake(
        stream,
        partial(_gate, policy, replicas),
        replicas,
        size=SIZE,
        grace=grace,
        enough=agreed if policy in ("vote", "vote-latest") else 1,
        silent=agreed if policy in ("vote", "vote-latest", "sample") else 1,
    )


def _gate(policy: str, replicas: tuple[str, ...], first: int) -> Gate:
    match policy:
        case "vote":
            return Vote(replicas, first=first)
        case "vote-latest":
            return VoteLatest(replicas, first=first)
        case "sample":
            return Sample(replicas, every=EVERY, first=first)
        case "first":
            return First(replicas, first=first)
        case "latest":
            return Latest(replicas, first=first)
        case _:
            raise InvalidArgumentError(f"policy: {policy!r} does not compare replicas")
