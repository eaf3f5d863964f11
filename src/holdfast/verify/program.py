"""Runs a PySpark program in a replica, from boundary to boundary.

What a program has read of a boundary may turn out to be wrong later, if the mode lets it go on.
Then the program begins again from its first line. Boundaries that are agreed upon are not computed
then: they are read.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.verification import JobState, Standing
from holdfast.verify.boundaries import marking
from holdfast.verify.computing import SparkComputer
from holdfast.verify.job_files import Program
from holdfast.verify.replica import Replica

__all__ = ["run_program"]


def run_program(program: Program, replica: Replica, computer: SparkComputer) -> Standing:
    """Until the job is done. What the code does besides its boundaries, it does in every replica,
    and again if it begins again."""
    while True:
        walk = _Walk(program, replica, computer)
        try:
            with marking(walk), _kept_open(computer.spark), _arguments(str(program.path)):
                _run(program)
            return walk.finish()
        except _StaleError:
            continue


def _run(program: Program) -> None:
    """To its end, which may be a call of `sys.exit`."""
    try:
        runpy.run_path(str(program.path), run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise InvalidArgumentError(
                f"{program.path}: has ended itself with {end.code!r}; see what it said before, and "
                "let it end with 0 when all is well"
            ) from None


class _StaleError(BaseException):
    """The program has gone on from something that is not so. It must not catch this itself."""


class _Walk:
    """A program on its way; see `Marker`."""

    def __init__(self, program: Program, replica: Replica, computer: SparkComputer) -> None:
        self._program = program
        self._replica = replica
        self._computer = computer
        self._passed: dict[str, list[bytes]] = {}
        """The digests of what the program was given of each boundary."""

    def mark(self, df: DataFrame, name: str) -> DataFrame:
        boundaries = self._program.boundaries
        if name in self._passed or name not in boundaries:
            raise InvalidArgumentError(
                f"{self._program.path}: boundary {name!r} is marked twice or was not announced; "
                f"mark each of these once: {', '.join(boundaries)}"
            )
        self._check_all_passed(boundaries[: boundaries.index(name)])
        self._computer.define(name, lambda _: df)

        def is_enough(standing: Standing) -> bool:
            self._check_fresh(standing)
            return self._replica.may_pass(name, standing)

        standing = self._replica.work([name], is_enough)
        inputs = self._replica.inputs_of(name, standing)
        self._passed[name] = [each.digest for each in inputs]
        return self._computer.open(name, inputs)

    def finish(self) -> Standing:
        """The program has come to its end: wait until the job is done."""
        self._check_all_passed(self._program.boundaries)

        def is_enough(standing: Standing) -> bool:
            is_done = standing.state is JobState.DONE
            if not is_done:
                self._check_fresh(standing)
            return is_done

        return self._replica.work([], is_enough)

    def _check_fresh(self, standing: Standing) -> None:
        for name, digests in self._passed.items():
            if not self._replica.may_pass(name, standing) or digests != [
                each.digest for each in self._replica.inputs_of(name, standing)
            ]:
                raise _StaleError

    def _check_all_passed(self, boundaries: tuple[str, ...]) -> None:
        for name in boundaries:
            if name not in self._passed:
                raise InvalidArgumentError(
                    f"{self._program.path}: boundary {name!r} was passed by; mark all boundaries, "
                    "in the order in which they stand in the file, whatever the data"
                )


@contextmanager
def _kept_open(spark: SparkSession) -> Iterator[None]:
    """Programs stop their session in the end; it is still needed if they begin again."""
    stop = spark.stop
    spark.stop = lambda: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        spark.stop = stop  # type: ignore[method-assign]


@contextmanager
def _arguments(*arguments: str) -> Iterator[None]:
    before = sys.argv
    sys.argv = list(arguments)
    try:
        yield
    finally:
        sys.argv = before
