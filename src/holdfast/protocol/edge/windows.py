"""Windows at the root: panes of all groups become windows, each emitted once, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.protocol.edge.messages import PanePartial
from holdfast.protocol.edge.queries import Paned, floor_to

__all__ = ["Window", "Windows"]


@dataclass(frozen=True, slots=True)
class Window:
    """The answer of a query for `[start, end)`, and what is to be said about it."""

    query: str
    start: int
    end: int
    answer: Any
    complete: bool
    """Whether every event that was taken from a sensor is in it."""
    missing: int
    """At most so many are not."""
    lost: int
    replayed: int
    late: int
    """Events lost for ever, sent again, and refused for their time, since the window before."""
    failed: tuple[str, ...]
    epoch: int
    newest: int
    """The latest time of its events."""
    refused: int = 0
    """Events refused for their value or key since the window before, by sensors and children."""


class Windows:
    """Of one query. `begin`: no window before this time is whole, None if all are."""

    def __init__(self, paned: Paned, begin: int | None = None) -> None:
        self.paned = paned
        self.begin = begin
        self._next: int | None = None
        self._panes: dict[int, dict[str, PanePartial]] = {}
        self._lost = 0
        """Since the window before."""
        self._told: Sequence[int] = (0, 0, 0)
        self._totals: dict[str, Sequence[int]] = {}

    def __len__(self) -> int:
        return len(self._panes)

    def through(self, time: int) -> int:
        """The end of the last window, and of the pane, that an event of this time is in."""
        query = self.paned.query
        pane = floor_to(time, self.paned.length) + self.paned.length
        return max(floor_to(time, query.slide) + query.size, pane)

    def put(self, group: str, pane: int, state: PanePartial) -> None:
        """A pane of a group, complete; they come in order, each once."""
        self._panes.setdefault(pane, {})[group] = state
        self._lost += state.lost
        # A taker may know of less than the one it took over from.
        before = self._totals.get(group, (0, 0, 0))
        counts = state.replayed, state.late, state.refused
        self._totals[group] = tuple(map(max, before, counts))

    def emit(self, origin: int, through: int, failed: Mapping[str, Any]) -> Iterator[Window]:
        """The windows that are complete, now that all groups have all panes up to `through`. The
        first pane there is begins at `origin`."""
        query = self.paned.query
        if self._next is None:
            self._next = floor_to(origin - query.size, query.slide) + query.slide
            if self.begin is not None:
                self._next = max(self._next, self.begin + -self.begin % query.slide)
        while self._next + query.size <= through:
            yield self._window(self._next, tuple(sorted(failed)))
            self._next += query.slide
            for pane in [each for each in self._panes if each < self._next]:
                del self._panes[pane]

    def _window(self, start: int, failed: tuple[str, ...]) -> Window:
        end = start + self.paned.query.size
        partial, whole, missing, epoch, newest = None, True, 0, 0, 0
        for pane in range(start, end, self.paned.length):
            states = self._panes.get(pane, {})
            for group in sorted(states):
                state = states[group]
                partial = self.paned.combine(partial, state.partial)
                whole = whole and state.whole
                missing += state.missing
                epoch = max(epoch, *(claim.epoch for claim in state.claims))
                newest = max(newest, state.newest)
        lost, self._lost = self._lost, 0
        sums = [sum(total[at] for total in self._totals.values()) for at in range(3)]
        replayed, late, refused = (now - was for now, was in zip(sums, self._told, strict=True))
        self._told = tuple(sums)
        return Window(
            self.paned.id,
            start,
            end,
            self.paned.answer(partial),
            whole and not missing,
            missing,
            lost,
            replayed,
            late,
            failed,
            epoch,
            newest,
            refused,
        )
