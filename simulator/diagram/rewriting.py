"""From a diagram to stages: gates where streams enter, fixed orders where streams meet.

The rules of digest §2.3, as our buckets have them: one gate stands before all inputs of a stage,
single ones too, and sorts them; so a union is a merge of sorted streams, a join reads two sorted
streams, and nothing inside a stage waits. Each stream that leaves a stage gets a log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product

from simulator.diagram.diagram import Diagram, Placed, in_order, streams_of
from simulator.diagram.operators import Join, Merge, Operator, OrderedJoin, Union
from simulator.diagram.plan import Output, StagePlan, Step


def rewrite(diagram: Diagram) -> tuple[StagePlan, ...]:
    """The stages of a diagram, each after those that it reads from.

    Stages that read from each other in a circle are refused.
    """
    makers = diagram.makers()
    members: dict[str, list[Placed]] = {}
    for placed in diagram.sorted():
        members.setdefault(placed.stage, []).append(placed)
    feeds = {
        stage: {
            makers[stream].stage
            for placed in own
            for stream in placed.inputs
            if stream in makers and makers[stream].stage != stage
        }
        for stage, own in members.items()
    }
    ordered = in_order("stages", {stage: sorted(others) for stage, others in feeds.items()})
    return tuple(_plan(diagram, stage, members[stage]) for stage in ordered)


def _plan(diagram: Diagram, stage: str, members: list[Placed]) -> StagePlan:
    made = [stream for placed in members for stream in streams_of(placed)]
    read = {stream for placed in members for stream in placed.inputs}
    elsewhere = {
        stream for placed in diagram.operators if placed.stage != stage for stream in placed.inputs
    }
    inputs = tuple(
        stream
        for stream in (*diagram.sources, *diagram.makers())
        if stream in read and stream not in made
    )
    reaches = {stream: _entering(stream) for stream in inputs}
    for placed in members:
        reach = _through(placed, [reaches[stream] for stream in placed.inputs])
        reaches.update((stream, reach) for stream in streams_of(placed))
    return StagePlan(
        stage,
        inputs,
        tuple(
            Step(placed.name, _ordered(placed.operator), placed.inputs, streams_of(placed))
            for placed in members
        ),
        tuple(
            reaches[stream].to(stream)
            for stream in made
            if stream in elsewhere or stream in diagram.outputs
        ),
        convergent=all(placed.operator.convergent for placed in members),
        span=max(reach.span for reach in reaches.values()),
    )


def _ordered(operator: Operator) -> Operator:
    if isinstance(operator, Union):
        return Merge()
    if isinstance(operator, Join):
        return OrderedJoin(operator.window, operator.match)
    return operator


@dataclass(frozen=True, slots=True)
class _Reach:
    """What `Output` says of a stream, and the windows on the longest path to it."""

    inputs: frozenset[str]
    needs: frozenset[frozenset[str]]
    blocking: frozenset[str] = frozenset()
    operators: dict[str, frozenset[str]] = field(default_factory=dict)
    span: float = 0

    def to(self, stream: str) -> Output:
        return Output(stream, self.inputs, self.blocking, tuple(self.operators.items()), self.needs)


def _entering(stream: str) -> _Reach:
    alone = frozenset((stream,))
    return _Reach(alone, frozenset((alone,)))


def _through(placed: Placed, before: list[_Reach]) -> _Reach:
    inputs = frozenset().union(*(reach.inputs for reach in before))
    operators: dict[str, frozenset[str]] = {}
    for reach in before:
        operators.update(reach.operators)
    if placed.operator.blocking:
        blocking = inputs
        needs = _least(need for reach in before for need in reach.needs)
    else:
        blocking = frozenset().union(*(reach.blocking for reach in before))
        ways = product(*(reach.needs for reach in before))
        needs = _least(frozenset().union(*way) for way in ways)
    return _Reach(
        inputs,
        needs,
        blocking,
        {**operators, placed.name: inputs},
        placed.operator.span + max(reach.span for reach in before),
    )


def _least(needs: Iterable[frozenset[str]]) -> frozenset[frozenset[str]]:
    """Those that contain no other."""
    known = frozenset(needs)
    return frozenset(need for need in known if not any(other < need for other in known))
