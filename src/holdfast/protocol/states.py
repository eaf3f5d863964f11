"""The states of nodes and of the streams they publish."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["State"]


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
