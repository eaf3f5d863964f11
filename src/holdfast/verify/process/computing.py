"""Stages of a replica on its Spark session, over slices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import HoldfastError
from holdfast.verify.machine import Agreed, Compute, Holder, Input
from holdfast.verify.process.canonical import spark_schema
from holdfast.verify.process.jobs import Job, Stage
from holdfast.verify.process.messages import decode, encode
from holdfast.verify.process.pinned_files import CODE, PinnedFiles, SourceFile
from holdfast.verify.process.reads import Reads
from holdfast.verify.process.slice_files import Storage, read_slice
from holdfast.verify.process.slices import Making, Reporter, make_slices
from holdfast.verify.process.task_api import Calls, Unverified, messages, settle

# DataFrames over slices.
#
# Spark's tasks check every piece before they give it out, tell of copies that are not what they
# should be, and read on in the next one. No data source of Spark's is in it: to plan one takes
# Spark three Python processes more.

_LOCAL: Final = "spark.sql.execution.arrow.localRelationThreshold"
"""Bytes up to which Spark knows how large a table is that it is given."""

logger = logging.getLogger(__name__)


class Accuser(Protocol):
    """Tells the verifiers of bad copies. It travels to Spark's tasks, so it can be pickled."""

    def broken(self, stage: str, number: int, maker: int) -> None:
        """The copy of this slice that its maker holds has not the digest that it reported."""


@dataclass(frozen=True)
class Binding:
    """The slices of a stage as one replica is to read them."""

    storage: Path | Storage
    stage: str
    inputs: tuple[Input, ...]
    accuser: Accuser

    def read(self, number: int) -> Iterator[pa.Table]:
        """The pieces of a slice, checked."""
        wanted = self.inputs[number]

        def tell(holder: Holder, why: str) -> None:
            logger.warning(
                "stage %s: slice %d of replica %d: %s; reading the next copy",
                self.stage,
                number,
                holder.replica,
                why,
            )
            try:
                self.accuser.broken(self.stage, number, holder.replica)
            except (HoldfastError, OSError) as error:
                logger.warning("stage %s: the verifiers could not be told: %s", self.stage, error)

        yield from read_slice(self.storage, wanted.digest, wanted.rows, wanted.holders, tell)

    def schema(self) -> StructType:
        """The columns, as Spark has them."""
        return spark_schema(next(self.read(0)).schema)


def open_slices(spark: SparkSession, binding: Binding) -> DataFrame:
    """The rows that it binds, a partition for each slice."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for told in batch.column(0).to_pylist():
                for table in binding.read(decode(told, int)):
                    yield from table.to_batches()
        settle()

    return _numbers(spark, len(binding.inputs)).mapInArrow(read, binding.schema())


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    """Messages with 0, 1 and so on, each in a partition of its own.

    Spark must not know how little that is: it would take the slices for small too, and send them to
    all executors.
    """
    batches = [messages([encode(number)]) for number in range(count)]
    before = spark.conf.get(_LOCAL)
    assert before is not None
    spark.conf.set(_LOCAL, "0")
    try:
        return spark.createDataFrame(pa.Table.from_batches(batches))
    finally:
        spark.conf.set(_LOCAL, before)


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
