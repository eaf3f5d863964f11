"""The gates that compare replicas, as the simulator sets them up."""

from __future__ import annotations

from typing import Final

from holdfast.pipeline.machine.vote_subscription import Comparison, VoteIntake
from simulator.scenario import HEARTBEAT, MISSED, SIZE

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
