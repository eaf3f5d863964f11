"""Where a machine lives in the simulator: up or down, awake or standing still."""

from __future__ import annotations

from holdfast.pipeline.machine.sharing import Message, Replica, Sink, Source
from simulator.sharing.scenario import When


class DeathError(Exception):
    """In the middle of a step."""


class Party:
    """A place for a machine. `queue`: what comes while it stands still."""

    def __init__(self, name: str, machine: Replica | Source | Sink) -> None:
        self.name = name
        self.machine = machine
        self.is_up = True
        self.starts = 0
        self.queue: list[tuple[str, Message]] | None = None
        self.woken_at: int | None = None
        self.dies_after: When | None = None
