"""Stages with a state of a given size, and what a failure costs them: with a fork of the state, and
with a copied checkpoint as the founding document has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.pipeline.machine.tuples import Row
from holdfast.windows import monoids
from simulator.diagram import CountWindow, Diagram, Operator, Placed, WindowAggregate
from simulator.diagram import rewrite as plan_stages
from simulator.operators import Stage

__all__ = ["Held", "Work", "by_copy", "by_fork", "count_windows", "slope", "time_window"]

PANE: Final = 10
"""How long a pane is, and a bucket of a failure."""
AT_ONCE: Final = 10_000
"""Panes of a bucket while the state is built."""
AFTER: Final = 7
"""The window has slid this often before anything is measured."""


@dataclass(frozen=True)
class Work:
    """What a failure cost, in states combined and in states copied."""

    previews: float
    """Combines for what was missing something."""
    redone: float
    """Combines for the same buckets once nothing was missing."""
    copied: float

    @property
    def total(self) -> float:
        return self.previews + self.redone + self.copied

    @classmethod
    def mean(cls, works: Sequence[Work]) -> Work:
        """The average over several failures."""
        return cls(
            sum(work.previews for work in works) / len(works),
            sum(work.redone for work in works) / len(works),
            sum(work.copied for work in works) / len(works),
        )


@dataclass
class Held:
    """A stage in steady state, which goes on from failure to failure."""

    stage: Stage
    rows: Callable[[int], list[Row]]
    """Those of the bucket that begins there."""

    def run(self, stage: Stage, buckets: int) -> int:
        """Let the stage process so many; answers how many states it combined."""
        before = stage.combines
        for _ in range(buckets):
            start = stage.boundary or 0
            stage.run(start, start + PANE, {"a": self.rows(start)})
        return stage.combines - before


def by_fork(held: Held, buckets: int) -> Work:
    """Fork at the failure, preview with the fork, redo with the base, drop the fork."""
    base, before = held.stage, held.stage.copied
    fork = base.fork()
    previews = held.run(fork, buckets)
    redone = held.run(base, buckets)
    copied = fork.copied + base.copied - before
    fork.drop()
    return Work(previews, redone, copied)


def by_copy(held: Held, buckets: int) -> Work:
    """Copy at the failure, preview with the state itself, then go on with the copy in its place.

    The document copies once more to restore; a checkpoint that is not needed again need not be.
    """
    state, checkpoint = held.stage, held.stage.copy()
    previews = held.run(state, buckets)
    state.drop()
    held.stage = checkpoint
    return Work(previews, held.run(checkpoint, buckets), checkpoint.copied)


def time_window(panes: int, keys: int = 1) -> Held:
    """A sliding sum over so many panes for each key, with one row of each key in each pane."""

    def rows(start: int) -> list[Row]:
        return [Row(start, key, start % 97) for key in range(keys)]

    stage = _stage(WindowAggregate(panes * PANE, PANE, monoids.sum))
    for first in range(0, panes + AFTER, AT_ONCE):
        last = min(first + AT_ONCE, panes + AFTER)
        each = [row for pane in range(first, last) for row in rows(pane * PANE)]
        stage.run(first * PANE, last * PANE, {"a": each})
    return Held(stage, rows)


def count_windows(rows: int, keys: int, touched: int) -> Held:
    """A sum over the last `rows` of each key, where after a while only a few keys have rows."""

    def of(start: int, count: int) -> list[Row]:
        return [Row(start, key, start % 97) for key in range(count)]

    stage = _stage(CountWindow(rows, monoids.sum))
    for start in range(0, (rows + AFTER) * PANE, PANE):
        stage.run(start, start + PANE, {"a": of(start, keys)})
    return Held(stage, lambda start: of(start, touched))


def _stage(operator: Operator) -> Stage:
    (plan,) = plan_stages(Diagram(("a",), (Placed("w", operator, ("a",), "s"),), ("w",)))
    return Stage(plan)


def slope(figures: dict[int, float]) -> float:
    """Of the line through them where both axes are logarithmic: 0 is flat, 1 is linear."""
    points = [(math.log(size), math.log(figure)) for size, figure in figures.items()]
    middle = sum(x for x, _ in points) / len(points)
    return sum((x - middle) * y for x, y in points) / sum((x - middle) ** 2 for x, _ in points)
