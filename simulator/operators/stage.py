"""A stage that runs: the operators of a plan, one bucket after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.errors import InvalidArgumentError, WindowDroppedError
from holdfast.pipeline.machine.tuples import Row
from simulator.diagram import (
    CountWindow,
    Filter,
    Map,
    Merge,
    Operator,
    OrderedJoin,
    Sort,
    StagePlan,
    WindowAggregate,
)
from simulator.operators.aggregate import RunningAggregate, RunningCountWindow
from simulator.operators.join import RunningJoin
from simulator.operators.keyed import KeyedWindows
from simulator.operators.running import Running, Tally
from simulator.operators.sort import RunningSort
from simulator.operators.stateless import filtering, mapping, merging


class Stage:
    """The state of a stage after all buckets before `boundary`."""

    def __init__(self, plan: StagePlan) -> None:
        self.plan = plan
        self.boundary: int | None = None
        """Where the next bucket begins; None while there was none."""
        self._tally = Tally()
        self._dropped = False
        self._operators = self._started()

    @property
    def combines(self) -> int:
        """How many states this stage has combined, its forks and its base not counted."""
        return self._tally.combines

    @property
    def copied(self) -> int:
        """How many states and rows this stage has copied to part from others or to be a copy."""
        return self._tally.copied

    def run(
        self, start: int, end: int, inputs: Mapping[str, Sequence[Row]]
    ) -> dict[str, tuple[Row, ...]]:
        """The output rows of the bucket [start, end), from the rows of each input, by time.

        An input that is not given has no rows. Buckets follow each other without gaps.
        """
        if self._dropped or self.boundary != start:
            self._check(start)
        streams: dict[str, Sequence[Row]] = {**dict.fromkeys(self.plan.inputs, ()), **inputs}
        for step, operator in zip(self.plan.steps, self._operators, strict=True):
            made = operator.run(start, end, [streams[name] for name in step.inputs])
            streams.update(zip(step.outputs, made, strict=True))
        self.boundary = end
        return {output.stream: tuple(streams[output.stream]) for output in self.plan.outputs}

    def fork(self) -> Stage:
        """A second stage that goes on from here; neither disturbs the other."""
        fork = self._beginning_here()
        fork._operators = [operator.fork(fork._tally) for operator in self._operators]
        return fork

    def copy(self) -> Stage:
        """A second stage that shares nothing with this one: O(n), to give away or to compare."""
        copy = self._beginning_here()
        copy._operators = [operator.copy(copy._tally) for operator in self._operators]
        return copy

    def drop(self) -> None:
        """Give up this stage; its base and its forks live on."""
        for operator in self._operators:
            operator.drop()
        self._operators = []
        self._dropped = True

    def restart(self) -> None:
        """Forget everything: the next bucket may be any."""
        self.drop()
        self._operators = self._started()
        self._dropped = False
        self.boundary = None

    def _started(self) -> list[Running]:
        return [_start(step.operator, self._tally) for step in self.plan.steps]

    def _beginning_here(self) -> Stage:
        if self._dropped:
            raise _dropped_error()
        other = Stage(self.plan)
        other.boundary = self.boundary
        return other

    def _check(self, start: int) -> None:
        if self._dropped:
            raise _dropped_error()
        if self.boundary is not None:
            raise InvalidArgumentError(
                f"stage {self.plan.name}: the bucket begins at {start} but the one before ended at "
                f"{self.boundary}; run those between, or restart() the stage"
            )


def _dropped_error() -> WindowDroppedError:
    return WindowDroppedError("this stage was dropped; go on with its base or a fork")


def _start(operator: Operator, tally: Tally) -> Running:
    match operator:
        case Filter():
            return filtering(operator)
        case Map():
            return mapping(operator)
        case Merge():
            return merging()
        case OrderedJoin():
            return RunningJoin(operator)
        case WindowAggregate():
            return RunningAggregate(operator, KeyedWindows(operator.monoid, tally))
        case CountWindow():
            return RunningCountWindow(operator, KeyedWindows(operator.monoid, tally))
        case Sort():
            return RunningSort(operator)
        case _:
            raise InvalidArgumentError(
                f"stage: {type(operator).__name__} does not run; give what rewrite() has planned"
            )
