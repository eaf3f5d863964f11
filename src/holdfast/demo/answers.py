"""Answers that the client of the pipeline gets: final ones, tentative ones, corrections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Told

__all__ = ["Answer", "Answers", "count_differences"]


class Answer(NamedTuple):
    """The sum of one sensor over one window."""

    end: int
    """Of the window, in microseconds."""
    sensor: str
    n: int
    total: int


@dataclass
class Answers:
    """Of one client, in the order in which they came. One thread writes, others may read."""

    told: list[tuple[int, Told]] = field(default_factory=list)
    """And when, in microseconds."""
    final: int = 0
    """Rows."""
    tentative: int = 0
    withdrawn: int = 0
    boundary: int = 0
    """Up to where there are final ones."""

    def take(self, at: int, told: Told) -> None:
        rows = 0 if told.rows is None else len(told.rows)
        match told.kind:
            case Kind.INSERT:
                self.final += rows
                self.boundary = told.boundary
            case Kind.TENTATIVE:
                self.tentative += rows
            case Kind.UNDO:
                # An UNDO goes back to what is final.
                self.withdrawn = self.tentative
        self.told.append((at, told))

    @property
    def is_corrected(self) -> bool:
        """Whether nothing that was tentative still stands."""
        return self.withdrawn == self.tentative

    def kinds(self, since: int) -> list[Kind]:
        """What was told, from a moment on."""
        return [told.kind for at, told in list(self.told) if at >= since]

    def final_answers(self) -> list[Answer]:
        told = [each for _, each in list(self.told) if each.kind is Kind.INSERT]
        return [answer for each in told if each.rows is not None for answer in _answers(each.rows)]


def _answers(rows: pa.Table) -> Iterable[Answer]:
    ends = pc.struct_field(rows["window"], "end").cast(pa.int64())
    columns = (ends, rows["sensor"], rows["n"], rows["total"])
    return map(Answer, *(column.to_pylist() for column in columns))


def count_differences(given: Sequence[Answer], right: Sequence[Answer]) -> int:
    """Answers that are missing, wrong or there twice."""
    ours, theirs = Counter(given), Counter(right)
    return ((ours - theirs) + (theirs - ours)).total()
