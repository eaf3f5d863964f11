"""A diagram: which operators stand between which streams, and on which stage each runs.

Made by users and by the simulator, read by `rewrite`. What could not run is refused here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from holdfast.errors import InvalidArgumentError
from simulator.diagram.operators import (
    Filter,
    Join,
    Merge,
    Operator,
    OrderedJoin,
    Timeout,
    Union,
)


@dataclass(frozen=True, slots=True)
class Placed:
    """An operator in its place: it reads these streams and runs on this stage.

    The stream it makes has its name; those of a filter are the outputs that the filter names.
    """

    name: str
    operator: Operator
    inputs: tuple[str, ...]
    stage: str


@dataclass(frozen=True, slots=True)
class Diagram:
    """A graph without loops from source streams through operators to the streams clients read."""

    sources: tuple[str, ...]
    operators: tuple[Placed, ...]
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_once("sources", self.sources)
        _check_once("operators", [placed.name for placed in self.operators])
        _check_once("outputs", self.outputs)
        _check_once("streams", [*self.sources, *self._made()])
        for placed in self.operators:
            _check_operator(placed)
            _check_inputs(placed)
        self._check_known()
        self._check_used()
        self.sorted()

    def sorted(self) -> list[Placed]:
        """The operators, each after those that it reads from."""
        by_name = {placed.name: placed for placed in self.operators}
        makers = self.makers()
        reads = {
            placed.name: [makers[stream].name for stream in placed.inputs if stream in makers]
            for placed in self.operators
        }
        return [by_name[name] for name in in_order("operators", reads)]

    def makers(self) -> dict[str, Placed]:
        """Which operator makes each stream that is no source."""
        return {stream: placed for placed in self.operators for stream in streams_of(placed)}

    def _made(self) -> Iterator[str]:
        for placed in self.operators:
            yield from streams_of(placed)

    def _check_known(self) -> None:
        made = set(self._made())
        for placed in self.operators:
            for stream in placed.inputs:
                if stream not in made and stream not in self.sources:
                    raise InvalidArgumentError(
                        f"operator {placed.name}: reads {stream}, which is no source and made by "
                        f"no operator; give one of {[*self.sources, *sorted(made)]}"
                    )
        for stream in self.outputs:
            if stream not in made:
                raise InvalidArgumentError(
                    f"outputs: {stream} is made by no operator; give one of {sorted(made)}"
                )

    def _check_used(self) -> None:
        if not self.outputs:
            raise InvalidArgumentError("outputs: there are none; name a stream for clients to read")
        read = {stream for placed in self.operators for stream in placed.inputs}
        for stream in (*self.sources, *self._made()):
            if stream not in read and stream not in self.outputs:
                raise InvalidArgumentError(
                    f"stream {stream}: nobody reads it; leave it out or add it to the outputs"
                )


def streams_of(placed: Placed) -> tuple[str, ...]:
    """The streams that an operator makes, in the order of its outputs."""
    operator = placed.operator
    if not isinstance(operator, Filter):
        return (placed.name,)
    names = tuple(name for name, _ in operator.predicates)
    return names if operator.no_match is None else (*names, operator.no_match)


def in_order(what: str, after: Mapping[str, Iterable[str]]) -> list[str]:
    """The names, each behind those it comes after; refuses a loop and names those in it."""
    try:
        return list(TopologicalSorter(after).static_order())
    except CycleError as error:
        loop = " -> ".join(error.args[1])
        raise InvalidArgumentError(
            f"{what}: {loop} is a loop; feed nothing back, or place the operators otherwise"
        ) from None


def _check_once(what: str, names: Collection[str]) -> None:
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise InvalidArgumentError(f"{what}: {', '.join(twice)} more than once; name each once")


def _check_operator(placed: Placed) -> None:
    operator = placed.operator
    if isinstance(operator, Timeout):
        raise InvalidArgumentError(
            f"operator {placed.name}: a Timeout is not deterministic, so replicas of stage "
            f"{placed.stage} would differ; {operator.remedy}"
        )
    if isinstance(operator, Merge | OrderedJoin):
        raise InvalidArgumentError(
            f"operator {placed.name}: {type(operator).__name__} is what rewriting makes; give a "
            "Union or a Join"
        )


def _check_inputs(placed: Placed) -> None:
    count = len(placed.inputs)
    if isinstance(placed.operator, Union):
        right, remedy = count >= 2, "give two or more, or leave the union out"
    elif isinstance(placed.operator, Join):
        right, remedy = count == 2, "give two, the left one first"
    else:
        right, remedy = count == 1, "give one, and put a Union before it for several"
    if not right:
        kind = type(placed.operator).__name__
        raise InvalidArgumentError(
            f"operator {placed.name}: a {kind} does not read {count} streams; {remedy}"
        )
