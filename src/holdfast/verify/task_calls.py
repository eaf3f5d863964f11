"""The calls of tasks, as messages to the verifiers: see `Calls`."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Final

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.verification import Holder, JobState, Plan, Report, Run
from holdfast.protocol.verification.verifier import MAX_CHUNKS
from holdfast.verify.client import Verifiers, Witness
from holdfast.verify.errors import JobFailedError, NotAgreedError
from holdfast.verify.hosts import this_host

__all__ = ["TaskCalls"]

PATIENCE: Final = 300.0
"""Seconds that a call waits for the others."""
THREADS: Final = 4
"""That wait for parts of one task."""
_LOOK: Final = 0.05
_WHOLE: Final = MAX_CHUNKS - 1
"""The part that stands for the whole output of a task."""
_NO_FILE: Final = "-"


@dataclass(frozen=True)
class TaskCalls:
    """Of one replica, for one run of a stage. It travels to tasks."""

    stage: str
    run: Run
    basis: bytes
    stages: dict[str, tuple[str, ...]]
    slices: int
    retries: int
    witness: Witness
    asks: tuple[str, ...]
    patience: float = PATIENCE

    def blocking_verify(self, task: int, output: bytes) -> bool:
        return self._verify(task, output, _WHOLE)

    def non_blocking_verify(self, task: int, output: bytes, seq: int) -> Future[bool]:
        if not 0 <= seq < _WHOLE:
            raise InvalidArgumentError(
                f"stage {self.stage}: seq is {seq}; number the parts of a task from 0, and make "
                f"them so large that there are no more than {_WHOLE}"
            )
        self._check_task(task)
        return self._pool.submit(self._verify, task, output, seq)

    def consult_verifier(self, stage: str, task: int) -> tuple[Holder, ...]:
        self._check_task(task)
        with self._verifiers() as verifiers:
            verdict = verifiers.consult().verdicts.get(stage)
        if verdict is None:
            raise InvalidArgumentError(
                f"stage: there is no {stage!r}; give one of {', '.join(self.stages)}"
            )
        agreed = verdict.slices.get(task)
        return agreed.holders if agreed is not None else ()

    def _verify(self, task: int, output: bytes, seq: int) -> bool:
        self._check_task(task)
        digest = sha256(output).digest()
        self.witness.report(
            Report(
                job=self.witness.job,
                stage=self.stage,
                run=self.run,
                slice=task,
                replica=self.witness.replica,
                host=this_host(),
                path=_NO_FILE,
                digest=digest,
                rows=len(output),
                basis=self.basis,
                seq=seq,
            )
        )
        end = time.monotonic() + self.patience
        with self._verifiers() as verifiers:
            while time.monotonic() < end:
                agreed = verifiers.chunk(self.stage, task, seq)
                if agreed is not None:
                    return agreed.digest == digest
                standing = verifiers.consult()
                if standing.state is JobState.FAILED:
                    raise JobFailedError(standing.failure)
                time.sleep(_LOOK)
        raise NotAgreedError(
            f"stage {self.stage}: task {task}, part {seq}: too few replicas have told the same for "
            f"{self.patience:g} seconds; see whether they number tasks and parts alike"
        )

    def _verifiers(self) -> Verifiers:
        plan = Plan(self.stages, self.slices)
        return Verifiers(plan, self.retries, self.asks, self.witness.security)

    def _check_task(self, task: int) -> None:
        if not 0 <= task < self.slices:
            raise InvalidArgumentError(
                f"stage {self.stage}: task is {task}; a job of {self.slices} slices has tasks 0 to "
                f"{self.slices - 1}: use fewer partitions, or more slices"
            )

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(THREADS, thread_name_prefix="verify")
