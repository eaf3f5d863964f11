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
from holdfast.protocol.verification.reports import MAX_CHUNKS
from holdfast.verify.client import Verifiers, Witness
from holdfast.verify.errors import JobFailedError, NotAgreedError
from holdfast.verify.hosts import this_host
from holdfast.verify.messages import MAX_DATA

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

    def blocking_verify(self, task: int, output: bytes, *, raw: bool = False) -> bool:
        self._check_raw(output, raw)
        return self._verify(task, output, _WHOLE, raw)

    def non_blocking_verify(
        self, task: int, output: bytes, seq: int, *, raw: bool = False
    ) -> Future[bool]:
        self._check_seq(seq)
        self._check_task(task)
        self._check_raw(output, raw)
        return self._pool.submit(self._verify, task, output, seq, raw)

    def consult_verifier(self, stage: str, task: int) -> tuple[Holder, ...]:
        self._check_task(task)
        self._check_stage(stage)
        with self._verifiers() as verifiers:
            agreed = verifiers.consult().verdicts[stage].slices.get(task)
        return agreed.holders if agreed is not None else ()

    def agreed_output(self, stage: str, task: int, seq: int | None = None) -> bytes | None:
        self._check_task(task)
        self._check_stage(stage)
        if seq is not None:
            self._check_seq(seq)
        with self._verifiers() as verifiers:
            return verifiers.raw_chunk(stage, task, _WHOLE if seq is None else seq)

    def _verify(self, task: int, output: bytes, seq: int, raw: bool) -> bool:
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
                data=output if raw else None,
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

    def _check_stage(self, stage: str) -> None:
        if stage not in self.stages:
            raise InvalidArgumentError(
                f"stage: there is no {stage!r}; give one of {', '.join(self.stages)}"
            )

    def _check_seq(self, seq: int) -> None:
        if not 0 <= seq < _WHOLE:
            raise InvalidArgumentError(
                f"stage {self.stage}: seq is {seq}; number the parts of a task from 0, and make "
                f"them so large that there are no more than {_WHOLE}"
            )

    def _check_raw(self, output: bytes, raw: bool) -> None:
        if raw and len(output) > MAX_DATA:
            raise InvalidArgumentError(
                f"stage {self.stage}: {len(output):,} bytes are too many to be told raw; tell no "
                f"more than {MAX_DATA:,} at once, or without raw, which tells their digest"
            )

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(THREADS, thread_name_prefix="verify")
