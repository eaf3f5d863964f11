"""Calls of Spark tasks to the verifiers, at little cost to their process."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from itertools import accumulate
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from holdfast.errors import InvalidArgumentError, JobFailedError, NotAgreedError
from holdfast.verify.machine import Holder, JobState, Plan, Report, Run
from holdfast.verify.machine.reports import MAX_CHUNKS
from holdfast.verify.process.client import Verifiers, Witness
from holdfast.verify.process.messages import MAX_DATA
from holdfast.verify.process.placement import this_host

# What Spark's tasks are told and answer, at little cost to the process that they run in.
#
# A task here works for milliseconds, so that what Python does around it counts. Arrow imports
# pandas as soon as it is given Python's values: that takes a third of a second in every process.

MESSAGES: Final = "message binary"
"""The columns of `messages`, for Spark."""


def messages(values: Sequence[bytes]) -> pa.RecordBatch:
    """A row for each of them."""
    ends = np.fromiter(accumulate(map(len, values), initial=0), np.int32)
    content = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    column = pa.Array.from_buffers(pa.binary(), len(values), content)
    return pa.RecordBatch.from_arrays([column], ["message"])


@cache
def settle() -> None:
    """Let the garbage collector look no more at what this process has imported. Spark has it look
    at everything after each task."""
    gc.freeze()


# What the code of a stage may ask of the verifiers from within Spark's tasks.
#
# A stage whose function has a keyword-only parameter `calls` is given one of these. Stages are
# verified as a whole without it; it is for code that wants to know earlier, or finer:
#
#     @job.stage
#     def hourly(readings, *, calls): ...     # calls.blocking_verify(task, data) in its mapInArrow


class Calls(Protocol):
    """Tasks are numbered like partitions; there are not more of them than slices."""

    def blocking_verify(self, task: int, output: bytes, *, raw: bool = False) -> bool:
        """Tell what a task gives, once and at its end, and wait: whether that is what was agreed
        upon. The task keeps its core meanwhile. What is told is the digest; `raw`: the output too,
        if it is small, so that others can ask for it."""

    def non_blocking_verify(
        self, task: int, output: bytes, seq: int, *, raw: bool = False
    ) -> Future[bool]:
        """Tell a part of it and go on. `seq` is the same for the same part in all replicas."""

    def consult_verifier(self, stage: str, task: int) -> tuple[Holder, ...]:
        """Who holds what was agreed upon of a slice; nobody as long as nothing is."""

    def agreed_output(self, stage: str, task: int, seq: int | None = None) -> bytes | None:
        """What was agreed upon of a part of a task, or of the whole of it without `seq`. None as
        long as nothing is, and if it was not told raw."""


class Unverified:
    """For a job that is run once: whatever it gives is taken."""

    def blocking_verify(self, task: int, output: bytes, *, raw: bool = False) -> bool:
        return True

    def non_blocking_verify(
        self, task: int, output: bytes, seq: int, *, raw: bool = False
    ) -> Future[bool]:
        done: Future[bool] = Future()
        done.set_result(True)
        return done

    def consult_verifier(self, stage: str, task: int) -> tuple[Holder, ...]:
        return ()

    def agreed_output(self, stage: str, task: int, seq: int | None = None) -> bytes | None:
        return None


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
