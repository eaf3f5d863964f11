"""The verbs of every running operator, and the count of what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.pipeline.machine.tuples import Row

Inputs = Sequence[Sequence[Row]]
"""For each input its rows of the bucket, by time."""
Outputs = Sequence[list[Row]]
"""For each output its rows, by time, all within the bucket."""


@dataclass(slots=True)
class Tally:
    """The work of one stage, which its forks count for themselves."""

    combines: int = 0
    copied: int = 0
    """States and rows that were copied, to part from a fork or to make a copy."""


class Running(Protocol):
    """An operator with its state after some buckets."""

    def run(self, start: int, end: int, inputs: Inputs) -> Outputs:
        """The rows for [start, end), which follows the bucket before."""

    def fork(self, tally: Tally) -> Running:
        """A second one that goes on from here; copies little or nothing."""

    def copy(self, tally: Tally) -> Running:
        """The same, sharing nothing with this one: what a copied checkpoint costs."""

    def drop(self) -> None:
        """Free what only this one holds."""
