"""The rows of one batch for a shard window: put in order, grouped by key, split by pane.

Used by `shard`. Rows of one key in one pane are ordered by time, equal times as they came.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from holdfast.windows.columns import Column, rows
from holdfast.windows.shard.registry import Located
from holdfast.windows.shard.tables import Table

__all__ = ["first_rows", "group", "split_by_pane", "stable_order"]

RADIX: Final = 2**16
"""NumPy sorts 16-bit integers by radix, everything wider by merging."""

LARGEST_CODE: Final = 2**61
"""Pane and key together make a code, which must not overflow."""


def group(
    located: Located, known: int, panes: Column, when: Column
) -> tuple[Column | None, Column | None]:
    """How to sort rows by pane, key, time and position, and where in that order each key begins.

    No order: they are sorted. No starts: each is a key of its own.
    """
    codes, bound = located.slots, known + len(located.fresh)
    if len(panes) > 1:
        numbers = panes - panes.min()
        if int(numbers.max()) * bound > LARGEST_CODE:
            numbers = np.unique(panes, return_inverse=True)[1]
        codes, bound = numbers * bound + codes, (int(numbers.max()) + 1) * bound
    if (codes[1:] > codes[:-1]).all():
        return None, None
    order = stable_order(codes, bound)
    ordered = codes[order]
    new = ordered[1:] != ordered[:-1]
    if new.all():
        return order, None
    if (when[1:] < when[:-1]).any():
        by_time = np.argsort(when, kind="stable")
        order = by_time[stable_order(codes[by_time], bound)]
    return order, np.append(0, np.flatnonzero(new) + 1)


def stable_order(codes: Column, bound: int) -> Column:
    """What `np.argsort(codes, kind="stable")` answers, sooner if the codes are small."""
    if bound > RADIX * RADIX:
        return np.argsort(codes, kind="stable")
    order = np.argsort((codes % RADIX).astype(np.uint16), kind="stable")
    if bound > RADIX:
        order = order[np.argsort((codes // RADIX).astype(np.uint16)[order], kind="stable")]
    return order


def first_rows(column: Column, order: Column | None, starts: Column | None) -> Column:
    """For each key in a batch, what its first row has."""
    if order is not None:
        column = column[order]
    return column if starts is None else column[starts]


def split_by_pane(
    table: Table, panes: Column, order: Column | None, starts: Column | None
) -> list[tuple[int, Table]]:
    """The table of a batch, pane by pane."""
    if len(panes) == 1:
        return [(int(panes[0]), table)]
    panes = first_rows(panes, order, starts)
    cuts = [0, *(np.flatnonzero(panes[1:] != panes[:-1]) + 1).tolist(), len(panes)]
    if len(cuts) == 2:
        return [(int(panes[0]), table)]
    parts = []
    for start, stop in pairwise(cuts):
        # Copies, or one open pane would keep the whole batch in memory.
        here = np.arange(start, stop)
        states = tuple([rows(state, here) for state in table.states])
        parts.append((int(panes[start]), Table(table.ids[here], states)))
    return parts
