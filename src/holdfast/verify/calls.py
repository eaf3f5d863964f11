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
