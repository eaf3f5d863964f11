"""What a replica has done and how it is, as far as others are told: written by its loop only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.protocol.node import Node

__all__ = ["ReplicaCounts"]


@dataclass(slots=True)
class ReplicaCounts:
    """Plain values, so that other threads may read them."""

    stable: int = 0
    """Rows published as final since it was started."""
    tentative: int = 0
    """Rows shown as tentative."""
    state: str = "FAILURE"
    start: int = 0
    """From where on its stream is kept."""
    boundary: int = 0
    """Up to where it is final."""
    newest: int = 0
    """Up to where anything was shown."""
    buffered: int = 0
    """Buckets that wait at the gate."""
    lag: int = 0
    """How far the final boundary is behind the clock, in microseconds."""
    delay_new: int = 0
    """How far what was shown last is behind the clock."""
    is_stranded: bool = False
    """Whether it has lost its state, nobody has it, and its inputs are not kept from the start."""

    def look(self, node: Node, now: int) -> None:
        """Note how the node is."""
        [line] = node.lines.values()
        self.state = node.stream_state(line.stream).name
        self.start, self.boundary, self.newest = line.dropped_before, line.end, line.previewed
        self.buffered = node.gate.buffered
        self.is_stranded = node.is_stranded
        self.lag = max(0, now - line.end)
        self.delay_new = max(0, now - line.previewed)

    def status(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "stable_rows": self.stable,
            "tentative_rows": self.tentative,
            "start": self.start,
            "boundary": self.boundary,
            "newest": self.newest,
            "buckets_buffered": self.buffered,
            "lag_seconds": self.lag / 1e6,
            "delay_new_seconds": self.delay_new / 1e6,
            "stranded": self.is_stranded,
        }
