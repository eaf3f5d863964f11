"""One replica of a job: computes stages until the verifiers need no more.

What comes next is decided by `next_steps` alone, from what the verifiers say and what this replica
has computed. How a stage is computed is left to the `Computer`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol

from holdfast.errors import InvalidArgumentError, JobFailedError
from holdfast.verify.machine import (
    Agreed,
    Compute,
    Computed,
    Input,
    JobState,
    Mode,
    Plan,
    Standing,
    inputs_of,
    is_stale,
    next_steps,
)


class Trace:
    """Each line is on disk, for others to read, when the call returns."""

    def __init__(self, file: Path | int, clock: Callable[[], float] = time.time) -> None:
        """`file`: its number if it is open already."""
        if isinstance(file, Path):
            file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file
        self._clock = clock

    def starts(self, step: Compute) -> None:
        inputs = {parent: _inputs(slices) for parent, slices in step.inputs.items()}
        self._write("starts", step, inputs=inputs)

    def made(self, step: Compute, slices: Sequence[Agreed]) -> None:
        self._write(
            "made",
            step,
            slices=[
                {"digest": each.digest.hex(), "rows": each.rows, "path": each.holders[0].path}
                for each in slices
            ],
        )

    def dropped(self, step: Compute) -> None:
        """It was ended: what it read turned out to be wrong, or all is computed again."""
        self._write("dropped", step)

    def failed(self, step: Compute, why: str) -> None:
        self._write("failed", step, why=why)

    def _write(self, event: str, step: Compute, **more: Any) -> None:
        line = {"at": self._clock(), "event": event, "stage": step.stage, "run": list(step.run)}
        with open(self._file, "a", closefd=isinstance(self._file, Path)) as file:
            file.write(json.dumps(line | more) + "\n")


def _inputs(slices: Sequence[Input]) -> list[dict[str, Any]]:
    """What is read first of each slice; the others only if that is not what it should be."""
    return [
        {
            "replica": each.holders[0].replica,
            "path": each.holders[0].path,
            "digest": each.digest.hex(),
            "verified": each.verified,
        }
        for each in slices
    ]


TRIES: Final = 2
"""Of one step from the same inputs, before it is the step that is to blame."""


class Verifiers(Protocol):
    """All verifiers of the job, as one."""

    def consult(self) -> Standing:
        """How the job stands."""

    def wait(self, known: Standing) -> None:
        """Until it may stand otherwise."""


class Computer(Protocol):
    def compute(self, step: Compute) -> tuple[Agreed, ...]:
        """Compute a stage and report it; its slices, of which this replica is the only holder."""


class Watch(Protocol):
    """Looks at how the job stands while something is computed."""

    def over(self, is_stale: Callable[[Standing], bool]) -> AbstractContextManager[Watched]:
        """End what is computed meanwhile as soon as it is stale."""


class Watched(Protocol):
    is_stale: bool
    """Whether it was ended."""


class Replica:
    """The loop. Whatever was computed is forgotten with it: a new one computes it again."""

    def __init__(
        self,
        number: int,
        plan: Plan,
        mode: Mode,
        verifiers: Verifiers,
        computer: Computer,
        trace: Trace,
        watch: Watch | None = None,
    ) -> None:
        """`watch`: without one, whatever was begun is computed to its end."""
        self._number = number
        self._plan = plan
        self._mode = mode
        self._verifiers = verifiers
        self._computer = computer
        self._trace = trace
        self._watch = watch
        self._computed: dict[str, Computed] = {}
        self._failures: dict[tuple[str, bytes], int] = {}

    def finish(self) -> Standing:
        """Compute until the job is done. Raises JobFailedError if it fails."""
        return self.work(self._plan.stages, lambda standing: standing.state is JobState.DONE)

    def work(self, stages: Container[str], is_enough: Callable[[Standing], bool]) -> Standing:
        """Compute of these stages what is to be computed, until it is enough."""
        while True:
            standing = self._verifiers.consult()
            if standing.state is JobState.FAILED:
                raise JobFailedError(standing.failure)
            if is_enough(standing):
                return standing
            steps = next_steps(self._plan, self._mode, self._number, standing, self._computed)
            step = next((each for each in steps if each.stage in stages), None)
            if step is None:
                self._verifiers.wait(standing)
            else:
                self._compute(step)

    def may_pass(self, stage: str, standing: Standing) -> bool:
        """Whether what follows a stage may look at what it gave, agreed upon or not."""
        verdict = standing.verdicts[stage]
        if verdict.is_ok:
            return True
        done = self._computed.get(stage)
        return self._mode is not Mode.BLOCKING and done is not None and done.run == verdict.run

    def inputs_of(self, stage: str, standing: Standing) -> tuple[Input, ...]:
        """Where it reads a stage that `may_pass`."""
        return inputs_of(self._plan, self._number, standing, self._computed, stage)

    def _compute(self, step: Compute) -> None:
        self._trace.starts(step)
        watched = None
        try:
            with ExitStack() as stack:
                if self._watch is not None:
                    watched = stack.enter_context(self._watch.over(partial(self._is_stale, step)))
                slices = self._computer.compute(step)
        except Exception as error:
            if watched is not None and watched.is_stale:
                self._trace.dropped(step)
                return
            self._trace.failed(step, str(error))
            is_verified = all(each.verified for each in chain.from_iterable(step.inputs.values()))
            if not isinstance(error, InvalidArgumentError) and not is_verified:
                # Of its own slices that nobody has agreed on it has one copy, which somebody may
                # have changed. Of those that are verified there are others: wait for these.
                self._mode = Mode.BLOCKING
                return
            # Perhaps inputs were broken, which the verifiers know of by now.
            key = (step.stage, step.basis)
            self._failures[key] = self._failures.get(key, 0) + 1
            if isinstance(error, InvalidArgumentError) or self._failures[key] >= TRIES:
                raise
            return
        self._computed[step.stage] = Computed(step.run, step.digests, slices)
        self._trace.made(step, slices)

    def _is_stale(self, step: Compute, standing: Standing) -> bool:
        return is_stale(self._plan, self._mode, self._number, standing, self._computed, step)
