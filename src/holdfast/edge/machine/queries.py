"""Queries, their panes, and the windows that the root makes of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from holdfast.edge.machine.aggregates import aggregate
from holdfast.edge.machine.messages import PanePartial, Query
from holdfast.errors import InvalidArgumentError

# Queries and their panes: windows are made of panes, and only panes are aggregated at the edge.
#
# A pane is `[start, start + length)`, aligned to the epoch; its length is the greatest common
# divisor of the window's size and slide.

NOTHING: Final[Any] = None
"""The partial of a pane without events."""


def floor_to(time: int, length: int) -> int:
    return time - time % length


def ceil_to(time: int, length: int) -> int:
    return time + -time % length


class Paned:
    """A query with its aggregate. Partials are None as long as there is nothing in them."""

    def __init__(self, query: Query) -> None:
        if query.size <= 0 or query.slide <= 0:
            raise InvalidArgumentError(f"query {query.id!r}: size and slide must be positive")
        self.query = query
        self.id = query.id
        self.length = gcd(query.size, query.slide)
        self.aggregate = aggregate(query.aggregate, **query.options)

    def add(self, partial: Any, values: NDArray[np.float64], keys: Any) -> Any:
        """With these events in it, one by one in their order."""
        if self.query.keyed:
            before = {} if partial is NOTHING else partial
            return self.aggregate.add_keyed(before, keys, values)
        before = self.aggregate.empty() if partial is NOTHING else partial
        return self.aggregate.add(before, values)

    def combine(self, one: Any, other: Any) -> Any:
        """Of two slots, partitions, groups or panes: the callers keep to an order."""
        if one is NOTHING:
            return other
        if other is NOTHING:
            return one
        if self.query.keyed:
            return self.aggregate.combine_keyed(one, other)
        return self.aggregate.combine(one, other)

    def answer(self, partial: Any) -> Any:
        """What a user is told: None, or no keys, for nothing."""
        if self.query.keyed:
            return self.aggregate.answer_keyed({} if partial is NOTHING else partial)
        if partial is NOTHING:
            return self.aggregate.answer(self.aggregate.empty())
        return self.aggregate.answer(partial)


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
