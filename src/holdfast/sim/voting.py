"""The gates that compare replicas, as the simulator sets them up."""

from __future__ import annotations

from typing import Final

from holdfast.protocol.comparison import Comparison
from holdfast.protocol.vote_intake import VoteIntake
from holdfast.sim.scenario import HEARTBEAT, MISSED, SIZE

__all__ = ["EVERY", "vote_intake"]

EVERY: Final = 5
"""`sample` votes on one bucket of so many, on average."""
BARRIER: Final = 500_000


def vote_intake(policy: str, stream: str, replicas: tuple[str, ...], secret: bytes) -> VoteIntake:
    """The intake of a stream under this policy. `secret`: what `sample` draws from."""
    faulty = max(1, (len(replicas) - 1) // 3)
    comparison = Comparison(policy, faulty, every=EVERY, barrier=BARRIER)
    return comparison.intake(
        stream, replicas, size=SIZE, grace=HEARTBEAT * (MISSED + 2), secret=secret
    )
