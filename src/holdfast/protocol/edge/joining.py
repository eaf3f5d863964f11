"""The join of a pane's states, of all partitions of a group: what goes further up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.protocol.edge.aggregates import decode_partial
from holdfast.protocol.edge.messages import PanePartial
from holdfast.protocol.edge.queries import Paned
from holdfast.protocol.gates.merge import ALL, Merge

__all__ = ["PaneMerge", "ended_by", "join", "thawed", "weigh"]

PaneMerge = Merge[tuple[str, int], PanePartial]
"""By query and start of the pane; the version is that of the roster."""


def join(query: Paned, states: Sequence[PanePartial]) -> PanePartial:
    """One state of several, in their order."""
    if len(states) == 1 and states[0].partition == ALL:
        return states[0]
    partial = None
    for state in states:
        partial = query.combine(partial, state.partial)
    return PanePartial(
        ALL,
        partial,
        max(state.newest for state in states),
        min(state.roster for state in states),
        all(state.whole for state in states),
        sum(state.missing for state in states),
        tuple(claim for state in states for claim in state.claims),
        sum(state.lost for state in states),
        sum(state.replayed for state in states),
        sum(state.late for state in states),
        sum(state.refused for state in states),
    )


def weigh(state: PanePartial) -> int:
    """About how many bytes of memory a state takes, at no cost: all keys count as the first."""
    return 500 + _size(state.partial)


def _size(partial: Any) -> int:
    match partial:
        case dict():
            return len(partial) * (200 + _size(next(iter(partial.values()), None)))
        case bytes():
            return len(partial)
        case list() | tuple():
            return 100 + len(partial) * (50 + _size(partial[0] if partial else None))
    return 0


def thawed(state: PanePartial) -> PanePartial:
    """As it was before it went over a wire."""
    return replace(state, partial=decode_partial(state.partial))


def ended_by(query: str, length: int, until: int) -> Callable[[tuple[str, int]], bool]:
    """Which panes of a query end by then."""
    return lambda pane: pane[0] == query and pane[1] + length <= until
