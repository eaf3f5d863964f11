"""The gates that compare replicas, as the simulator sets them up."""

from __future__ import annotations

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.gates import First, Gate, Latest, Sample, Vote, VoteLatest
from holdfast.protocol.vote_intake import VoteIntake
from holdfast.sim.scenario import HEARTBEAT, MISSED, SIZE

__all__ = ["vote_intake"]


def vote_intake(policy: str, stream: str, replicas: tuple[str, ...]) -> VoteIntake:
    """The intake of a stream under this policy."""
    intake = VoteIntake(stream, _gate(policy, replicas), replicas, size=SIZE)
    intake.grace = HEARTBEAT * (MISSED + 2)
    return intake


def _gate(policy: str, replicas: tuple[str, ...]) -> Gate:
    match policy:
        case "vote":
            return Vote(replicas)
        case "vote-latest":
            return VoteLatest(replicas)
        case "sample":
            return Sample(replicas, every=5)
        case "first":
            return First(replicas)
        case "latest":
            return Latest(replicas)
        case _:
            raise InvalidArgumentError(f"policy: {policy!r} does not compare replicas")
