"""What a load manager runs: as it sees it, whatever it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from holdfast.protocol.contracts import Command, Epoch, Load, Manager

__all__ = ["Event", "Tasks", "Tell"]

Event = Callable[[Manager, int], list[Command]]
"""Something that has happened to a task: told to the manager, with the time."""
Tell = Callable[[Event], None]


class Tasks(Protocol):
    """Called by one thread. Nothing may wait: what takes time is told when it has happened."""

    def prepare(self, task: str, epoch: Epoch, source: str, tell: Tell) -> None: ...

    def start(self, task: str, epoch: Epoch, bucket: int, tell: Tell) -> None: ...

    def halt(self, task: str, epoch: Epoch, tell: Tell) -> None: ...

    def resume(self, task: str, epoch: Epoch) -> None: ...

    def stop(self, task: str, epoch: Epoch) -> None: ...

    def fence(self, task: str, epoch: Epoch, tell: Tell) -> None: ...

    def loads(self) -> Mapping[str, Load]:
        """What those take that run here, as far as it was measured."""

    def broken(self) -> frozenset[str]:
        """Those that are to run here and do not: ended, or not ready."""
        ...

    def close(self) -> None: ...
