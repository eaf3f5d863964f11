"""What the code of a stage may ask of the verifiers from within Spark's tasks.

A stage whose function has a keyword-only parameter `calls` is given one of these. Stages are
verified as a whole without it; it is for code that wants to know earlier, or finer:

    @job.stage
    def hourly(readings, *, calls): ...     # calls.blocking_verify(task, data) in its mapInArrow
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from holdfast.protocol.verification import Holder

__all__ = ["Calls", "Unverified"]


class Calls(Protocol):
    """Tasks are numbered like partitions; there are not more of them than slices."""

    def blocking_verify(self, task: int, output: bytes) -> bool:
        """Tell what a task gives, once and at its end, and wait: whether that is what was agreed
        upon. The task keeps its core meanwhile."""

    def non_blocking_verify(self, task: int, output: bytes, seq: int) -> Future[bool]:
        """Tell a part of it and go on. `seq` is the same for the same part in all replicas."""

    def consult_verifier(self, stage: str, task: int) -> tuple[Holder, ...]:
        """Who holds what was agreed upon of a slice; nobody as long as nothing is."""


class Unverified:
    """For a job that is run once: whatever it gives is taken."""

    def blocking_verify(self, task: int, output: bytes) -> bool:
        return True

    def non_blocking_verify(self, task: int, output: bytes, seq: int) -> Future[bool]:
        done: Future[bool] = Future()
        done.set_result(True)
        return done

    def consult_verifier(self, stage: str, task: int) -> tuple[Holder, ...]:
        return ()
