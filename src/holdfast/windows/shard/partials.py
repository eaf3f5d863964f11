"""Partials of rows before they reach a shard window: a state for each pane and key."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from holdfast.windows.columns import Column, State

__all__ = ["Partials"]


@dataclass(frozen=True, slots=True, eq=False)
class Partials:
    """Rows of a batch, reduced to one state for each pane and key that has any.

    Sorted by pane, then slot; no pair of the two comes twice.
    """

    keys: Sequence[Hashable]
    """Distinct keys, in the order of their first row."""
    panes: Column
    """The pane of each state (int64)."""
    slots: Column
    """Whose each state is: a position in `keys` (int64)."""
    counts: Column
    """Of how many rows each state is (int64)."""
    states: tuple[State, ...]
    """One for each aggregate, with a row for each of `panes`."""

    def __len__(self) -> int:
        return len(self.panes)
