"""Rows through their windows, in the order that does not depend on how they came.

Used by `processor`, with windows that lie in the state, and by `static`, with windows in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import pairwise
from math import copysign
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.spark.policy_windows.plan import PolicyPlan
from holdfast.spark.policy_windows.rows import Rows
from holdfast.windows.keyed import Rolled

__all__ = ["roll_rows"]

Roll = Callable[[Hashable, list[int], list[Any]], Rolled[Any]]
"""Rolls the window of a key: the times of updates and the updates, to what it then answers."""


def roll_rows(plan: PolicyPlan, rows: Rows, roll: Roll) -> pa.Table:
    """A result for each row: key by key, by time, at equal times by the values that are read."""
    rows = Rows(rows.keys, rows.batch.take(pa.array(np.lexsort((rows.times, rows.codes)))))
    codes, times = rows.codes, rows.times
    updates = _updates(plan, rows)
    _sort_ties(updates, (codes[1:] == codes[:-1]) & (times[1:] == times[:-1]))
    moments = times.tolist()
    bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(rows)]
    states: list[Any] = []
    certain: list[bool | None] = []
    for start, stop in pairwise(bounds):
        key = rows.keys[codes[start]]
        rolled = roll(key, moments[start:stop], updates[start:stop])
        states += rolled.states
        certain += rolled.certain
    return plan.tabulate(rows.keys, codes, times, states, certain)


def _updates(plan: PolicyPlan, rows: Rows) -> list[Any]:
    columns = []
    for measure, scalar in zip(plan.measures, plan.scalars, strict=True):
        source = measure.source
        values = None if source is None else rows.batch[f"v{plan.sources.index(source)}"]
        columns.append(scalar.read(values, len(rows)))
    return list(zip(rows.times.tolist(), *columns, strict=True))


def _sort_ties(updates: list[Any], tied: Any) -> None:
    """Sort stretches of updates in place; `tied[i]` says that i and i + 1 are of one stretch."""
    if not tied.any():
        return
    edges = np.flatnonzero(np.diff(np.concatenate([[False], tied, [False]]).astype(np.int8)))
    for start, stop in edges.reshape(-1, 2).tolist():
        updates[start : stop + 1] = sorted(updates[start : stop + 1], key=_rank)


def _rank(value: Any) -> Any:
    """The place of a value in an order of all values of one type: NULL first, NaN last."""
    match value:
        case None:
            return (0,)
        case float():
            # -0.0 before 0.0
            return (2,) if value != value else (1, value, copysign(1.0, value))
        case list() | tuple():
            return (1, tuple(map(_rank, value)))
        case dict():
            return (1, tuple(map(_rank, value.values())))
    return (1, value)
