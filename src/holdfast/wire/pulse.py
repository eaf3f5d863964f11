"""Whether the other side of a link is heard.

Looks are counted, not seconds: a process that was itself stopped for a while does not take its own
sleep for the other's silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import InvalidArgumentError

__all__ = ["LOOKS", "Pulse", "check_times"]

LOOKS = 8
"""So many looks in a row without a sign are silence; one every `silence / LOOKS` seconds."""


class Pulse:
    """One thread looks, others beat."""

    def __init__(self) -> None:
        self._missed = 0
        self._resting = False

    def beat(self) -> None:
        self._missed = 0

    @contextmanager
    def rest(self) -> Iterator[None]:
        """No sign is expected meanwhile."""
        self._resting = True
        try:
            yield
        finally:
            self._missed = 0
            self._resting = False

    def look(self) -> bool:
        """Whether there was a sign lately."""
        if not self._resting:
            self._missed += 1
        return self._missed <= LOOKS


def check_times(heartbeat: float, silence: float) -> None:
    if not 0 < 2 * heartbeat <= silence:
        raise InvalidArgumentError(
            f"silence: {silence:g} s with a heartbeat of {heartbeat:g} s; "
            "give at least two heartbeats"
        )
