"""Computes the stages of a replica on its Spark session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from holdfast.protocol.verification import Agreed, Compute, Input
from holdfast.verify.calls import Calls, Unverified
from holdfast.verify.jobs import Job, Stage
from holdfast.verify.pinned_files import CODE, PinnedFiles, SourceFile
from holdfast.verify.reading import Accuser, Binding, open_slices
from holdfast.verify.reads import Reads
from holdfast.verify.slice_files import Storage
from holdfast.verify.slices import Making, Reporter, make_slices

__all__ = ["Check", "Frames", "Maker", "SparkComputer", "Witness", "define_job"]

Frames = Mapping[str, DataFrame]
"""What a stage reads, by the parents' names."""

Maker = Callable[[Frames], DataFrame]
Check = Callable[[], None]


class Witness(Reporter, Accuser, Protocol):
    """What tasks tell the verifiers through."""


class SparkComputer:
    """Of one replica."""

    def __init__(
        self,
        spark: SparkSession,
        job: str,
        replica: int,
        slices: int,
        storage: Path | Storage,
        witness: Witness,
        task_witness: Witness | None = None,
        calls_for: Callable[[Compute], Calls] = lambda step: Unverified(),
        writes: Path | None = None,
    ) -> None:
        """`writes`: where it writes, if not to the common storage. `task_witness`: for tasks, if
        they are to speak through another one. `calls_for`: what the code of a stage may ask in a
        step."""
        self.spark = spark
        self._job = job
        self._replica = replica
        self._slices = slices
        self._storage = storage
        self._writes = writes or (storage.common if isinstance(storage, Storage) else storage)
        self._witness = witness
        self._task_witness = task_witness or witness
        self._calls_for = calls_for
        self.calls: Calls = Unverified()
        """What the stage may ask that is computed now."""
        self._makers: dict[str, Maker] = {}
        self._checks: dict[str, Check] = {}

    def define(self, stage: str, make: Maker, check: Check | None = None) -> None:
        """How to make a stage; a new definition takes the place of an old one.

        `check` raises if the files that the stage has read are not what they should have been; no
        slice is reported before."""
        self._makers[stage] = make
        if check is not None:
            self._checks[stage] = check

    def compute(self, step: Compute) -> tuple[Agreed, ...]:
        frames = {parent: self.open(parent, inputs) for parent, inputs in step.inputs.items()}
        making = Making(
            job=self._job,
            stage=step.stage,
            run=step.run,
            basis=step.basis,
            replica=self._replica,
            storage=self._writes,
            reporter=self._task_witness,
        )
        self.calls = self._calls_for(step)
        df = self._makers[step.stage](frames)
        return make_slices(df, self._slices, making, self._witness, self._checks.get(step.stage))

    def open(self, stage: str, inputs: tuple[Input, ...]) -> DataFrame:
        """A stage's rows, read from these inputs."""
        return open_slices(self.spark, Binding(self._storage, stage, inputs, self._task_witness))


def define_job(
    computer: SparkComputer,
    job: Job,
    files: Mapping[str, Sequence[SourceFile]],
    pinned: PinnedFiles | None = None,
    reads: Reads | None = None,
) -> None:
    """Let the stages of a job be made from these files of its sources.

    `pinned`: of the process, if it has checked files before. `reads`: checks what the code of a
    stage reads besides."""
    pinned = pinned or PinnedFiles()
    sources = {}
    for name, source in job.sources.items():
        # Before Spark reads them for their columns.
        pinned.check(name, files[name])
        sources[name] = source.open(computer.spark, [file.path for file in files[name]])
    for stage in job.stages.values():
        read = {name: files[name] for name in stage.inputs if name in sources}
        if CODE in files:
            # Tasks import it again.
            read[CODE] = files[CODE]
        check = partial(_check_all, pinned, read, reads) if read or reads else None
        computer.define(stage.name, _maker(computer, stage, sources, reads), check)


def _check_all(
    pinned: PinnedFiles, files: Mapping[str, Sequence[SourceFile]], reads: Reads | None
) -> None:
    for name, of_source in files.items():
        pinned.check(name, of_source)
    if reads is not None:
        reads.check()


def _maker(computer: SparkComputer, stage: Stage, sources: Frames, reads: Reads | None) -> Maker:
    def make(frames: Frames) -> DataFrame:
        known = {**sources, **frames}
        df = stage.frame([known[name] for name in stage.inputs], computer.calls)
        if reads is not None:
            reads.raise_failure()
            reads.note(df)
        return df

    return make
