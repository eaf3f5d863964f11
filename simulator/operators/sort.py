"""The approximate sort: a heap of rows, from which each new one sends out the least."""

from __future__ import annotations

from heapq import heappush, heappushpop
from typing import Any

from holdfast.pipeline.machine.tuples import Row
from simulator.diagram import Sort
from simulator.operators.running import Inputs, Outputs, Tally


class RunningSort:
    def __init__(self, described: Sort) -> None:
        self._described = described
        self._held: list[tuple[Any, int, Row]] = []
        self._seen = 0
        """How many rows there were: of equal ones the first goes first."""

    def run(self, start: int, end: int, inputs: Inputs) -> Outputs:
        by, most = self._described.by, self._described.rows
        sent: list[Row] = []
        for row in inputs[0]:
            entry = (by(row), self._seen, row)
            self._seen += 1
            if len(self._held) < most:
                heappush(self._held, entry)
            else:
                least = heappushpop(self._held, entry)[2]
                sent.append(least._replace(stime=row.stime))
        return (sent,)

    def fork(self, tally: Tally) -> RunningSort:
        """Copies the rows it holds, whose number is fixed."""
        fork = RunningSort(self._described)
        fork._held, fork._seen = list(self._held), self._seen
        tally.copied += len(self._held)
        return fork

    def copy(self, tally: Tally) -> RunningSort:
        return self.fork(tally)

    def drop(self) -> None:
        self._held = []
