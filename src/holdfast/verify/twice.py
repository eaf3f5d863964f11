"""The checker: runs each stage twice, from the same rows in other partitions and another order.

A stage that gives other rows then would have replicas disagree without anybody being wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from holdfast.protocol.verification import Agreed, Input, Report, Run
from holdfast.verify.calls import Unverified
from holdfast.verify.determinism import total_order
from holdfast.verify.jobs import Job
from holdfast.verify.reading import Binding, open_slices
from holdfast.verify.slices import Making, make_slices
from holdfast.verify.suspects import Suspect, suspects

__all__ = ["Difference", "StageCheck", "check_job"]

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
    """All stages, in order. `shown`: rows of a difference; `done` is told of each stage at once."""
    checks = []
    with TemporaryDirectory(prefix="holdfast-check-") as storage:
        bench = _Bench(spark, job, Path(storage))
        for name in job.plan.stages:
            check = bench.check(name, shown)
            checks.append(check)
            done(check)
    return checks


class _Nobody:
    """Reports go nowhere, and copies are not told on."""

    def report(self, report: Report) -> None: ...

    def broken(self, stage: str, number: int, maker: int) -> None: ...


class _Bench:
    """Where stages are run. What a stage reads is what the first run of its parents gave."""

    def __init__(self, spark: SparkSession, job: Job, storage: Path) -> None:
        self._spark = spark
        self._job = job
        self._storage = storage
        self._frames: dict[str, DataFrame] = {
            name: source.open(spark, source.find(job.folder))
            for name, source in job.sources.items()
        }

    def check(self, name: str, shown: int) -> StageCheck:
        stage = self._job.stages[name]
        frames = [self._frames[each] for each in stage.inputs]
        usual = stage.frame(frames, Unverified())
        first = self._run(name, 0, usual)
        with _settings(self._spark, _OTHER_SETTINGS):
            disturbed = stage.frame([_disturbed(frame) for frame in frames], Unverified())
            second = self._run(name, 1, disturbed)
        self._frames[name] = open_slices(self._spark, self._binding(name, first))
        difference = self._compare(name, first, second, shown)
        return StageCheck(name, difference, tuple(suspects(usual)))

    def _run(self, name: str, run: int, df: DataFrame) -> tuple[Agreed, ...]:
        making = Making(
            job=self._job.name,
            stage=name,
            run=Run(0, run),
            basis=b"",
            replica=run + 1,
            storage=self._storage,
            reporter=_Nobody(),
        )
        return make_slices(df, self._job.slices, making, _Nobody())

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
