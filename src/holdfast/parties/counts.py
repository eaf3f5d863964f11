"""What a replica has done and how it is, as far as others are told: written by its loop only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.protocol.node import Node
from holdfast.protocol.states import State

__all__ = ["ReplicaCounts", "spark_status"]


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
    waiting: int = 0
    """Bytes of rows that wait there in memory."""
    shelved: int = 0
    """Bytes of rows that wait there on disk."""
    previews_dropped: int = 0
    """Buckets of tentative input that the gate dropped, for the stage does not keep up."""
    is_stranded: bool = False
    """Whether it has lost its state, nobody has it, and its inputs are not kept from the start."""

    seats: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Of one that shares the work of its stage: from where to where it has each part."""

    def look(self, nodes: Collection[Node]) -> None:
        """Note how its nodes are: one, or one for each seat that it sits in; together they are no
        better than the worst of them."""
        lines = [line for node in nodes for line in node.lines.values()]
        states = [node.stream_state(name) for node in nodes for name in node.lines]
        self.state = max(states, default=State.FAILURE).name
        if not lines:
            self.seats = {}
            return
        self.start = max(line.dropped_before for line in lines)
        self.boundary = min(line.end for line in lines)
        self.newest = min(line.previewed for line in lines)
        self.buffered = sum(node.gate.buffered for node in nodes)
        self.waiting = sum(node.gate.held_in_memory for node in nodes)
        self.shelved = sum(node.gate.held_on_shelf for node in nodes)
        self.previews_dropped = sum(node.gate.previews_dropped for node in nodes)
        self.is_stranded = any(node.is_stranded for node in nodes)
        self.seats = {
            line.stream: {"start": line.dropped_before, "boundary": line.end} for line in lines
        }

    def status(self, now: int) -> dict[str, Any]:
        """`now`: by the machine's clock, whatever the loop is at: one that hangs lags too, and one
        whose stream is ahead of the clock lags by less than 0."""
        return {
            "state": self.state,
            "stable_rows": self.stable,
            "tentative_rows": self.tentative,
            "start": self.start,
            "boundary": self.boundary,
            "newest": self.newest,
            "buckets_buffered": self.buffered,
            "waiting_bytes": self.waiting,
            "waiting_disk_bytes": self.shelved,
            "previews_dropped": self.previews_dropped,
            "lag_seconds": (now - self.boundary) / 1e6,
            "delay_new_seconds": (now - self.newest) / 1e6,
            "stranded": self.is_stranded,
        }


def spark_status(progress: Mapping[str, Any] | None, page: str | None) -> dict[str, Any]:
    """What is told of a replica's Spark. `progress`: of its last batch. `page`: where it serves its
    own, if it does."""
    said = progress or {}
    operators = said.get("stateOperators") or ()
    return {
        "batch_seconds": (said.get("durationMs") or {}).get("triggerExecution", 0) / 1000,
        "busy_seconds": said.get("busySeconds", 0.0),
        "input_rows": said.get("inputRows", 0),
        "state_rows": sum(operator.get("numRowsTotal", 0) for operator in operators),
        "state_bytes": sum(operator.get("memoryUsedBytes", 0) for operator in operators),
        "spark_ui": page,
    }
