"""The start of a stream that is read from several replicas: all of them, if they come in time.

Replicas that begin together stay together, so that little waits for the slowest. One that never
comes must not hold the stream up for ever: after a while enough of them will do.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.protocol.states import State

__all__ = ["Barrier"]


class Barrier:
    """Opens when all are there; `patience` after the first look, when `enough` are."""

    def __init__(self, enough: int, patience: int) -> None:
        self.enough = enough
        self.patience = patience
        self.is_open = patience == 0
        self.missing: tuple[str, ...] = ()
        """Who was not there at the last look."""
        self._since: int | None = None

    def look(self, states: Mapping[str, State], now: int) -> bool:
        """Whether it is open, now that the replicas are in these states. It never closes again."""
        if self.is_open:
            return True
        self._since = now if self._since is None else self._since
        self.missing = tuple(name for name, state in states.items() if state is State.FAILURE)
        there = len(states) - len(self.missing)
        is_late = now >= self._since + self.patience
        self.is_open = not self.missing or (is_late and there >= self.enough)
        return self.is_open
