"""Operators that remember nothing: a fork of one is itself."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from holdfast.pipeline.machine.tuples import Row
from simulator.diagram import Filter, Map
from simulator.operators.running import Inputs, Outputs, Tally

_stime = attrgetter("stime")


class Stateless:
    """A function from the inputs of a bucket to its outputs."""

    def __init__(self, function: Callable[[Inputs], Outputs]) -> None:
        self._function = function

    def run(self, start: int, end: int, inputs: Inputs) -> Outputs:
        return self._function(inputs)

    def fork(self, tally: Tally) -> Stateless:
        return self

    def copy(self, tally: Tally) -> Stateless:
        return self

    def drop(self) -> None:
        """There is nothing to free."""


def filtering(described: Filter) -> Stateless:
    predicates = [predicate for _, predicate in described.predicates]
    count = len(predicates) + (described.no_match is not None)

    def run(inputs: Inputs) -> Outputs:
        # The last list is for rows that match nothing, and is left out if nobody asked for them.
        outputs: list[list[Row]] = [[] for _ in range(len(predicates) + 1)]
        for row in inputs[0]:
            for output, predicate in zip(outputs, predicates, strict=False):
                if predicate(row):
                    output.append(row)
                    break
            else:
                outputs[-1].append(row)
        return outputs[:count]

    return Stateless(run)


def mapping(described: Map) -> Stateless:
    function = described.function
    return Stateless(lambda inputs: ([Row(row.stime, *function(row)) for row in inputs[0]],))


def merging() -> Stateless:
    # Sorting keeps the order of equals: by input, then by place.
    return Stateless(lambda inputs: (sorted((r for rows in inputs for r in rows), key=_stime),))
