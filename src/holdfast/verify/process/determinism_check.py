"""Determinism check: runs each stage twice, from the same rows in another order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console

from holdfast.errors import JobFailedError, RefusedWriteError
from holdfast.spark.sessions import local_session, stop_session
from holdfast.verify.machine import Agreed, Input, Report, Run
from holdfast.verify.process.boundaries import Target
from holdfast.verify.process.computing import Binding, open_slices
from holdfast.verify.process.determinism import total_order
from holdfast.verify.process.job_files import Program, load_job
from holdfast.verify.process.jobs import Job, Stage
from holdfast.verify.process.plan_lint import Suspect, suspects
from holdfast.verify.process.program import run_marked
from holdfast.verify.process.refusing import writes_refused
from holdfast.verify.process.slices import Making, make_slices
from holdfast.verify.process.task_api import Unverified

# The checker: runs each stage twice, from the same rows in other partitions and another order.
#
# A stage that gives other rows then would have replicas disagree without anybody being wrong.

_OTHER_PARTITIONS: Final = 5
_OTHER_SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""Another plan than the usual one."""


@dataclass(frozen=True)
class Difference:
    """Rows that only one of two runs gave, the first few of each."""

    first: tuple[Mapping[str, Any], ...]
    second: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class StageCheck:
    stage: str
    difference: Difference | None
    """None if both runs gave the same rows."""
    suspects: tuple[Suspect, ...]
    """What in its plan may be the cause."""


def check_job(
    spark: SparkSession,
    job: Job,
    *,
    shown: int = 5,
    done: Callable[[StageCheck], None] = lambda check: None,
) -> list[StageCheck]:
    """All stages, in order. `shown`: rows of a difference; `done` is told of each stage at once.

    Raises RefusedWriteError if one writes, as in a replica."""
    checks = []
    with TemporaryDirectory(prefix="holdfast-check-") as storage:
        bench = _Bench(spark, job.name, job.slices, Path(storage))
        bench.open(job)
        with writes_refused(f"job {job.name}") as refused:
            for name in job.plan.stages:
                check = bench.check(job.stages[name], shown)
                checks.append(check)
                done(check)
        if refused:
            raise RefusedWriteError(refused[0])
    return checks


def check_program(
    spark: SparkSession,
    program: Program,
    arguments: Sequence[str] = (),
    *,
    shown: int = 5,
    done: Callable[[StageCheck], None] = lambda check: None,
) -> list[StageCheck]:
    """All boundaries of a program that is run twice; the second time it goes on from the rows of
    the first in another order. What it reads itself comes as Spark reads it, both times."""
    with TemporaryDirectory(prefix="holdfast-check-") as storage:
        bench = _Bench(spark, program.name, program.slices, Path(storage))
        run_marked(program, _First(bench), spark, arguments)
        second = _Second(bench, shown, done)
        with _settings(spark, _OTHER_SETTINGS):
            run_marked(program, second, spark, arguments)
        return second.checks


class _First:
    """The first run of a program; see `Marker`."""

    def __init__(self, bench: _Bench) -> None:
        self._bench = bench

    def mark(self, df: DataFrame, name: str) -> DataFrame:
        return self._bench.keep(name, df)

    def write(self, df: DataFrame, name: str, target: Target) -> None:
        self.mark(df, name)


class _Second:
    """The second one, which compares."""

    def __init__(self, bench: _Bench, shown: int, done: Callable[[StageCheck], None]) -> None:
        self.checks: list[StageCheck] = []
        self._bench = bench
        self._shown = shown
        self._done = done

    def mark(self, df: DataFrame, name: str) -> DataFrame:
        self.checks.append(self._bench.compare(name, df, self._shown))
        self._done(self.checks[-1])
        return _disturbed(self._bench.frame(name))

    def write(self, df: DataFrame, name: str, target: Target) -> None:
        self.mark(df, name)


class _Nobody:
    """Reports go nowhere, and copies are not told on."""

    def report(self, report: Report) -> None: ...

    def broken(self, stage: str, number: int, maker: int) -> None: ...


class _Bench:
    """Where stages are run. What a stage reads is what the first run of its parents gave."""

    def __init__(self, spark: SparkSession, name: str, slices: int, storage: Path) -> None:
        self._spark = spark
        self._name = name
        self._slices = slices
        self._storage = storage
        self._frames: dict[str, DataFrame] = {}
        self._kept: dict[str, tuple[tuple[Agreed, ...], tuple[Suspect, ...]]] = {}

    def open(self, job: Job) -> None:
        """Let stages read the job's sources."""
        for name, source in job.sources.items():
            self._frames[name] = source.open(self._spark, source.find(job.folder))

    def frame(self, name: str) -> DataFrame:
        return self._frames[name]

    def keep(self, name: str, df: DataFrame) -> DataFrame:
        """What the first run of a stage gave; read back."""
        slices = self._run(name, 0, df)
        self._kept[name] = slices, tuple(suspects(df))
        self._frames[name] = open_slices(self._spark, self._binding(name, slices))
        return self._frames[name]

    def compare(self, name: str, df: DataFrame, shown: int) -> StageCheck:
        """What another run gives, with what was kept."""
        first, found = self._kept[name]
        second = self._run(name, 1, df)
        return StageCheck(name, self._compare(name, first, second, shown), found)

    def check(self, stage: Stage, shown: int) -> StageCheck:
        frames = [self._frames[each] for each in stage.inputs]
        usual = stage.frame(frames, Unverified())
        with _settings(self._spark, _OTHER_SETTINGS):
            disturbed = stage.frame([_disturbed(frame) for frame in frames], Unverified())
        self.keep(stage.name, usual)
        with _settings(self._spark, _OTHER_SETTINGS):
            return self.compare(stage.name, disturbed, shown)

    def _run(self, name: str, run: int, df: DataFrame) -> tuple[Agreed, ...]:
        making = Making(
            job=self._name,
            stage=name,
            run=Run(0, run),
            basis=b"",
            replica=run + 1,
            storage=self._storage,
            reporter=_Nobody(),
        )
        return make_slices(df, self._slices, making, _Nobody())

    def _binding(self, name: str, slices: Sequence[Agreed]) -> Binding:
        inputs = tuple(Input(each.digest, each.rows, each.holders, False) for each in slices)
        return Binding(self._storage, name, inputs, _Nobody())

    def _compare(
        self, name: str, first: Sequence[Agreed], second: Sequence[Agreed], shown: int
    ) -> Difference | None:
        only_first: list[Mapping[str, Any]] = []
        only_second: list[Mapping[str, Any]] = []
        for number, (one, other) in enumerate(zip(first, second, strict=True)):
            if one.digest != other.digest:
                rows, others = (list(self._rows(name, each, number)) for each in (first, second))
                only_first += _without(rows, others)
                only_second += _without(others, rows)
            if min(len(only_first), len(only_second)) >= shown:
                break
        if not only_first and not only_second:
            return None
        return Difference(tuple(only_first[:shown]), tuple(only_second[:shown]))

    def _rows(
        self, name: str, slices: Sequence[Agreed], number: int
    ) -> Iterator[Mapping[str, Any]]:
        for table in self._binding(name, slices).read(number):
            yield from table.to_pylist()


def _without(
    rows: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Rows that are not among the others, or more often."""
    left = Counter(map(repr, others))
    found = []
    for row in rows:
        shown = repr(row)
        if left[shown]:
            left[shown] -= 1
        else:
            found.append(row)
    return found


def _disturbed(df: DataFrame) -> DataFrame:
    """The same rows, elsewhere and the other way round."""
    order = total_order(df)
    backwards = [each.desc() for each in order]
    return df.repartition(_OTHER_PARTITIONS, F.xxhash64(*order) + 1).sortWithinPartitions(
        *backwards
    )


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: str(spark.conf.get(name)) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def check_file(file: Path, console: Console, arguments: Sequence[str] = ()) -> bool:
    """Whether all stages of the job gave the same rows twice, in a session of its own."""
    job = load_job(file, arguments=arguments)
    spark = local_session(f"{job.name}, checked")
    try:
        return show_checks(spark, job, console, arguments)
    except PySparkException as error:
        raise JobFailedError(f"{file}: {error}; mend the job") from error
    finally:
        stop_session(spark)


def show_checks(
    spark: SparkSession, job: Job | Program, console: Console, arguments: Sequence[str] = ()
) -> bool:
    """Tell of each stage as soon as it was run twice; whether none differs."""

    def show(check: StageCheck) -> None:
        for line in _lines(check):
            console.print(line, soft_wrap=True, highlight=False, markup=False)

    if isinstance(job, Job):
        checks = check_job(spark, job, done=show)
    else:
        checks = check_program(spark, job, arguments, done=show)
    return all(check.difference is None for check in checks)


def _lines(check: StageCheck) -> list[str]:
    """What is said of a stage."""
    if check.difference is None:
        lines = [f"stage {check.stage}: is steady"]
    else:
        lines = [f"stage {check.stage}: differs"]
        lines += [f"  only the first time: {row}" for row in check.difference.first]
        lines += [f"  only the second time: {row}" for row in check.difference.second]
    return lines + [f"  suspect: {each}" for each in check.suspects]
